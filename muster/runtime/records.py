"""The record: what happened, as columns. The same tables come from the simulator and from real runs.

A record is a folder: `jobs.parquet`, `allocations.parquet`, `decisions.parquet`, `reasons.parquet` and
`run.json`. Times are seconds on the trace's clock, quantities GPUs, CPU cores, GB and GB/s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import polars as pl

from muster.files import write_parquet

JOBS: dict[str, pl.DataType] = {
    "job_id": pl.String(),
    "model": pl.String(),
    "tenant": pl.String(),
    "user": pl.String(),
    "gpus": pl.Float64(),  # requested; a share of one GPU is below 1
    "submit_seconds": pl.Float64(),
    "start_seconds": pl.Float64(),  # first start; null: never started
    "finish_seconds": pl.Float64(),  # when it ended, however it did; null: not yet
    "jct_seconds": pl.Float64(),  # finish - submit of a completed job
    "wait_seconds": pl.Float64(),  # time in the system without an allocation, preempted stretches included
    "run_seconds": pl.Float64(),  # time with an allocation
    "ideal_seconds": pl.Float64(),  # all the work at the reference: requested GPUs, proportional share
    "attained_gpu_seconds": pl.Float64(),
    "iterations": pl.Float64(),
    "iterations_done": pl.Float64(),
    "preemptions": pl.Int64(),  # times stopped with work left, failures included
    "moves": pl.Int64(),  # times the place or size changed without waiting in between
    "input_stall_seconds": pl.Float64(),
    "compute_seconds": pl.Float64(),
    "communication_seconds": pl.Float64(),
    "restart_seconds": pl.Float64(),
    "min_speedup_vs_fair_share": pl.Float64(),  # lowest speed over that with the share of its nodes
    "min_speedup_vs_slowest_fair_share": pl.Float64(),  # with the share of the slowest nodes it may use
    "utility": pl.Float64(),  # SMD's, of the completion time; 0: not completed; null: the owner says none
    "utility_target_seconds": pl.Float64(),  # its target for the completion time; null: the owner says none
    "deadline_seconds": pl.Float64(),  # null: the owner states none
    "outcome": pl.String(),  # completed, unfinished, refused, timed_out; in real runs also failed, cancelled
    "measured": pl.Boolean(),  # counts in the statistics
}

ALLOCATIONS: dict[str, pl.DataType] = {
    "job_id": pl.String(),
    "node": pl.String(),
    "role": pl.String(),  # worker, server
    "gpu_ids": pl.List(pl.Int64()),
    "gpus": pl.Float64(),  # count, or the share of one GPU
    "cpus": pl.Float64(),
    "memory_gb": pl.Float64(),
    "storage_gb_per_s": pl.Float64(),
    "slice_group": pl.Int64(),  # jobs of one group take turns on the same GPUs; null: none
    "from_seconds": pl.Float64(),
    "to_seconds": pl.Float64(),
}

DECISIONS: dict[str, pl.DataType] = {
    "time_seconds": pl.Float64(),
    "running": pl.Int64(),  # jobs, after the decision
    "waiting": pl.Int64(),
    "started": pl.Int64(),
    "stopped": pl.Int64(),
    "changed": pl.Int64(),  # moved or resized
    "free_gpus": pl.Float64(),
    "free_cpus": pl.Float64(),
    "free_memory_gb": pl.Float64(),
    "free_storage_gb_per_s": pl.Float64(),
    "value": pl.Float64(),  # what the plan reaches, in the measure of its bound; null: not known
    "bound": pl.Float64(),  # the most that was possible; null: none given
}

REASONS: dict[str, pl.DataType] = {
    "job_id": pl.String(),
    "reason": pl.String(),  # a code of schedulers.reasons
    "parameters": pl.String(),  # JSON object
    "from_seconds": pl.Float64(),
    "to_seconds": pl.Float64(),
}

TABLES: Mapping[str, Mapping[str, pl.DataType]] = {
    "jobs": JOBS,
    "allocations": ALLOCATIONS,
    "decisions": DECISIONS,
    "reasons": REASONS,
}
NODE_QUANTITIES = ("gpus", "cpus", "memory_gb", "storage_gb_per_s")


@dataclass(frozen=True)
class Record:
    """What happened in one run."""

    jobs: pl.DataFrame
    allocations: pl.DataFrame
    decisions: pl.DataFrame
    reasons: pl.DataFrame
    run: Mapping[str, Any]
    """Inputs, settings, versions and seed: enough to run it again.

    A real run also has `history`, its scheduler, settings and cluster from when on, and `until_seconds`, its end.
    """

    @property
    def scheduler(self) -> str:
        """The scheduler's full name, as `las+proportional+pack`."""
        return str(self.run["scheduler"]["name"])

    def nodes(self) -> pl.DataFrame:
        """Name and capacity of every node there ever was, the most where it changed; an unstated capacity is 0."""
        tables = [_node_table(cluster) for _, cluster in self.clusters()]
        if len(tables) == 1:
            return tables[0]
        return pl.concat(tables).group_by("node", maintain_order=True).max()

    def clusters(self) -> list[tuple[float, Mapping[str, Any]]]:
        """The clusters of the run, each with the moment from which on it was there; the first from the beginning."""
        changes = [(float(one["from_seconds"]), one["cluster"]) for one in self.run.get("history") or ()]
        return [(-inf, changes[0][1]), *changes[1:]] if changes else [(-inf, self.run["cluster"])]

    def node_spans(self) -> pl.DataFrame:
        """As `nodes`, a row for each stretch, `from_seconds` to `to_seconds`, in which a node had this capacity."""
        moments = [since for since, _ in self.clusters()] + [inf]
        return pl.concat(
            _node_table(cluster).with_columns(
                pl.lit(since).alias("from_seconds"), pl.lit(until).alias("to_seconds")
            )
            for (since, cluster), until in zip(self.clusters(), moments[1:], strict=True)
        )

    def write(self, folder: Path) -> None:
        """Write the tables and `run.json` into an existing folder."""
        for name in TABLES:
            table: pl.DataFrame = getattr(self, name)
            write_parquet(table, folder / f"{name}.parquet")
        text = json.dumps(self.run, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        (folder / "run.json").write_text(text, encoding="utf-8")


def _node_table(cluster: Mapping[str, Any]) -> pl.DataFrame:
    rows = [
        (str(node["name"]), *(float(node.get(quantity) or 0) for quantity in NODE_QUANTITIES))
        for node in cluster["nodes"]
    ]
    quantities = {quantity: pl.Float64() for quantity in NODE_QUANTITIES}
    return pl.DataFrame(rows, schema={"node": pl.String(), **quantities}, orient="row")
