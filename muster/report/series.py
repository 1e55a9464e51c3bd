"""What the charts need of one run, small whatever the size of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from muster.formatting import natural_order
from muster.report.timeline import (
    FloatArray,
    Steps,
    capacity,
    certified,
    gpus_in_use,
    held,
    jobs_waiting,
    window,
)
from muster.runtime.records import Record

TIMELINE_POINTS = 300
CDF_POINTS = 300
TENANTS_SHOWN = 12
GANTT_NODES, GANTT_ROWS = 64, 2000
SIZE_BOUNDS = (1, 2, 4, 8, 16, 32, 64)
SIZE_NAMES = (
    "no GPU",
    "part of a GPU",
    "1 GPU",
    "2 GPUs",
    "3–4 GPUs",
    "5–8 GPUs",
    "9–16 GPUs",
    "17–32 GPUs",
    "33–64 GPUs",
    "over 64 GPUs",
)


@dataclass(frozen=True)
class GroupMean:
    """The mean of a group of jobs, in seconds."""

    group: str
    jobs: int
    mean_seconds: float


@dataclass(frozen=True)
class RunSeries:
    """One run's curves; times are seconds since the first submission."""

    name: str
    jct: FloatArray
    """JCT of the measured completed jobs at evenly spaced ranks, ascending, in seconds."""
    wait: FloatArray
    gpu_use: Steps
    """GPUs allocated over GPUs, 0 to 1."""
    waiting: Steps
    """Jobs waiting."""
    below_best: Steps | None
    """How far decisions stayed below the best possible, as a share of it; NaN while there was nothing to reach."""
    jct_by_size: Sequence[GroupMean]
    wait_by_tenant: Sequence[GroupMean]
    tenants: int
    gantt: pl.DataFrame | None
    """Allocations with the gang size of their job, of a run small enough to draw each; else None."""
    nodes: pl.DataFrame


def chart_series(record: Record, name: str) -> RunSeries:
    """The curves of a run, under the name that distinguishes it from the others."""
    start, end = window(record)
    rows, nodes = held(record), record.nodes()
    in_use = gpus_in_use(rows, start, end).over(capacity(record, "gpus")).condensed(TIMELINE_POINTS)
    waiting = jobs_waiting(record).condensed(TIMELINE_POINTS)
    done = record.jobs.filter("measured", pl.col("outcome") == "completed")
    tenants = record.jobs["tenant"].fill_null("").n_unique()
    return RunSeries(
        name=name,
        jct=_ranks(done["jct_seconds"]),
        wait=_ranks(done["wait_seconds"]),
        gpu_use=Steps(in_use.times - start, in_use.values),
        waiting=Steps(waiting.times - start, waiting.values),
        below_best=_below_best(record, start),
        jct_by_size=_by_size(done),
        wait_by_tenant=_by_tenant(record, done) if tenants > 1 else (),
        tenants=tenants,
        gantt=_gantt(record, rows, start) if nodes.height <= GANTT_NODES else None,
        nodes=nodes,
    )


def _below_best(record: Record, start: float) -> Steps | None:
    known = certified(record)
    if known is None:
        return None
    steps = known.condensed(TIMELINE_POINTS).below()
    return Steps(steps.times - start, steps.values)


def size_name(gpus: float) -> str:
    """The bucket of a gang size: `3–4 GPUs`."""
    return SIZE_NAMES[int(_size_index(np.array([gpus]))[0])]


def _size_index(gpus: FloatArray) -> FloatArray:
    whole = 2 + np.searchsorted(np.array(SIZE_BOUNDS, dtype=np.float64), gpus, side="left")
    return np.where(gpus < 1, np.where(gpus > 0, 1, 0), whole)


def _ranks(seconds: pl.Series) -> FloatArray:
    """The values in order; of very many, those at evenly spaced ranks, least and greatest included."""
    ordered = seconds.drop_nulls().sort().to_numpy()
    if ordered.size <= CDF_POINTS:
        return ordered
    return ordered[np.linspace(0, ordered.size - 1, CDF_POINTS).round().astype(np.int64)]


def _by_size(done: pl.DataFrame) -> list[GroupMean]:
    index = _size_index(done["gpus"].to_numpy())
    jct = done["jct_seconds"].to_numpy()
    return [
        GroupMean(name, int(np.sum(index == bucket)), float(np.mean(jct[index == bucket])))
        for bucket, name in enumerate(SIZE_NAMES)
        if np.any(index == bucket)
    ]


def _by_tenant(record: Record, done: pl.DataFrame) -> list[GroupMean]:
    """The tenants with the most jobs, by name."""
    named = record.jobs.select(pl.col("tenant").fill_null("").alias("tenant"))
    counts = named.group_by("tenant").len().sort("len", "tenant", descending=[True, False])
    means = []
    for tenant in sorted(counts["tenant"].head(TENANTS_SHOWN).to_list(), key=natural_order):
        waits = done.filter(pl.col("tenant").fill_null("") == tenant)["wait_seconds"].drop_nulls().to_numpy()
        if waits.size:
            means.append(GroupMean(tenant or "no tenant", waits.size, float(np.mean(waits))))
    return means


def _gantt(record: Record, rows: pl.DataFrame, start: float) -> pl.DataFrame | None:
    if rows.height > GANTT_ROWS:
        return None
    gangs = record.jobs.select("job_id", pl.col("gpus").alias("gang_gpus"))
    return rows.join(gangs, on="job_id", maintain_order="left").with_columns(
        pl.col("from_seconds") - start, pl.col("to_seconds") - start
    )
