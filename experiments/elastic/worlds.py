"""The clusters and jobs of the recorded runs, as Muster's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from experiments.elastic.efficiency import applications
from experiments.elastic.epoch_work import SiaWorld
from experiments.elastic.files import FOLDER, FURTHER_FOLDER, read_table
from experiments.elastic.step_times import step_times
from muster.cluster import Cluster, Node
from muster.workload.trace import Trace, trace_of

MOST_GPUS = 64
"""GPUs of each cluster here, and the most that a job may hold."""

HOMOG = ((16, 4, "t4"),)
HET = ((6, 4, "t4"), (2, 8, "a100"), (3, 8, "rtx2080ti"))
A800 = ((8, 8, "a800"),)
CLUSTERS = {"homog": HOMOG, "het": HET, "a800": A800}
"""Nodes, GPUs of each and their type."""


_SPREAD_GPUS, _SPREAD_MEMORY_GB, _MEMORY_GB = 24, 321.0, 1.0
"""GB a GPU: beside four GPUs of such a job, a node of 1,600 GB has room for others, and none for a fifth of it."""


def cluster_named(name: str, further: int = 0) -> Cluster:
    """One of `CLUSTERS`, with so many further nodes of each kind after the others."""
    kinds = [*CLUSTERS[name], *((further, *kind[1:]) for kind in CLUSTERS[name])]
    nodes: list[Node] = []
    for count, gpus, gpu_type in kinds:
        nodes += [
            Node(
                f"n{len(nodes) + at}",
                gpu_type,
                0,
                gpus,
                gpu_type,
                gpus,
                12.0 * gpus,
                200.0 * gpus,
                gpus,
                1.25,
            )
            for at in range(count)
        ]
    return Cluster(name, tuple(nodes), ("rack",))


def sia_world(reference: Path, round_seconds: float) -> SiaWorld:
    """The world of Sia's simulator; other GPUs than T4 where their tables are present."""
    folder = reference / FOLDER
    files = [folder / "tables" / "t4_seconds_per_iteration.csv"]
    if (folder / FURTHER_FOLDER).is_dir():
        files.append(folder / FURTHER_FOLDER / "seconds_per_iteration.csv")
    return SiaWorld(applications(folder / "tables"), step_times(files), round_seconds)


def sia_jobs(reference: Path, workload: str) -> pl.DataFrame:
    """The jobs of a workload of Sia's simulator: job, submit_s, app, requested_gpus, batch."""
    folder = reference / FOLDER / ("sia" if workload.startswith("pollux-") else FURTHER_FOLDER)
    return read_table(folder / f"workload_{workload}.csv")


def rubick_jobs(reference: Path, workload: str) -> pl.DataFrame:
    """The jobs of a workload of Rubick's simulator.

    A job of llama30 on 24 GPUs fits on 6 nodes alone, on which it was measured: it requests as much memory.
    """
    jobs = read_table(reference / FOLDER / "rubick" / f"workload_{workload}.csv")
    spread = (pl.col("app") == "llama30") & (pl.col("requested_gpus") == _SPREAD_GPUS)
    each = pl.when(spread).then(_SPREAD_MEMORY_GB).otherwise(_MEMORY_GB)
    return jobs.with_columns(memory_gb=each * pl.col("requested_gpus"))


def trace_with(
    jobs: pl.DataFrame, duration_seconds: Sequence[float], restart_seconds: Sequence[float], *, elastic: bool
) -> Trace:
    """The trace of some jobs, whose work takes so long on the requested GPUs."""
    gpus = jobs["requested_gpus"].cast(pl.Int64)
    nothing = pl.repeat(None, len(jobs), eager=True, dtype=pl.Float64)
    frame = pl.DataFrame(
        {
            "job_id": jobs["job"],
            "submit_seconds": jobs["submit_s"].cast(pl.Float64),
            "gpus": gpus,
            "min_gpus": pl.repeat(1, len(jobs), eager=True) if elastic else gpus,
            "max_gpus": pl.repeat(MOST_GPUS, len(jobs), eager=True) if elastic else gpus,
            "model": jobs["app"],
            "duration_seconds": pl.Series(duration_seconds, dtype=pl.Float64),
            "restart_cost_seconds": pl.Series(restart_seconds, dtype=pl.Float64),
            "batch": jobs["batch"] if "batch" in jobs.columns else nothing,
            "memory_gb": jobs["memory_gb"] if "memory_gb" in jobs.columns else nothing,
        }
    )
    return trace_of(frame.to_dict(), "jobs of a recorded run")
