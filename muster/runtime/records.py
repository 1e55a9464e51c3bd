"""The record: what happened, as columns. The same tables come from the simulator and from real runs.

A record is a folder: `jobs.parquet`, `allocations.parquet`, `decisions.parquet`, `reasons.parquet` and
`run.json`. Times are seconds on the trace's clock, quantities GPUs, CPU cores, GB and GB/s.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from muster.cluster.resources import FURTHER, RESOURCES
from muster.files import write_parquet
from muster.formatting import as_json_text
from muster.runtime.compact_file import write_compact


class Column(NamedTuple):
    """A column of the record."""

    dtype: pl.DataType
    description: str
    """What a row states, with its unit; shown in the documentation."""


JOB_COLUMNS: Mapping[str, Column] = {
    "job_id": Column(pl.String(), "Name of the job in the trace; unique"),
    "model": Column(pl.String(), "Model that the job trains; empty: unknown"),
    "tenant": Column(pl.String(), "Tenant of the job; empty: none"),
    "user": Column(pl.String(), "User who submitted the job; empty: none"),
    "gpus": Column(pl.Float64(), "GPUs requested; a share of one GPU is below 1"),
    "min_gpus": Column(pl.Float64(), "Fewest GPUs that the job may have; null: not known"),
    "max_gpus": Column(pl.Float64(), "Most GPUs that the job may have; null: not known"),
    "submit_seconds": Column(pl.Float64(), "Submission"),
    "start_seconds": Column(pl.Float64(), "First start; null: never started"),
    "finish_seconds": Column(pl.Float64(), "End, however the job ended; null: not ended"),
    "jct_seconds": Column(pl.Float64(), "Finish minus submission of a completed job; else null"),
    "wait_seconds": Column(
        pl.Float64(),
        "Time in the system without an allocation, time between starts included; null: not completed",
    ),
    "run_seconds": Column(pl.Float64(), "Time with an allocation"),
    "ideal_seconds": Column(
        pl.Float64(),
        "Time for all the work with the requested GPUs, their proportional share and the best place",
    ),
    "attained_gpu_seconds": Column(pl.Float64(), "GPUs held, summed over time"),
    "iterations": Column(pl.Float64(), "Iterations of the whole job"),
    "iterations_done": Column(pl.Float64(), "Iterations done"),
    "preemptions": Column(pl.Int64(), "Number of stops with work left, node failures included"),
    "moves": Column(pl.Int64(), "Number of changes of place or size without a wait in between"),
    "input_stall_seconds": Column(pl.Float64(), "Part of the running time in which GPUs wait for input"),
    "compute_seconds": Column(pl.Float64(), "Part of the running time spent computing"),
    "communication_seconds": Column(
        pl.Float64(), "Part of the running time spent in communication that does not overlap with computing"
    ),
    "restart_seconds": Column(
        pl.Float64(), "Part of the running time spent in stops, start-ups and lost work"
    ),
    "min_speedup_vs_fair_share": Column(
        pl.Float64(),
        "Lowest ratio, over time, of the job's speed to its speed with the proportional share of the nodes it is on",
    ),
    "min_speedup_vs_slowest_fair_share": Column(
        pl.Float64(), "The same with the proportional share of the slowest nodes that the job may use"
    ),
    "utility": Column(
        pl.Float64(),
        "Utility of the completion time (SMD); 0: not completed; null: the job states no utility",
    ),
    "utility_target_seconds": Column(
        pl.Float64(), "Target for the completion time in that utility; null: the job states no utility"
    ),
    "deadline_seconds": Column(pl.Float64(), "Deadline; null: the job states none"),
    "outcome": Column(
        pl.String(),
        "completed, unfinished, refused, timed_out or cancelled; in records of the service also failed",
    ),
    "measured": Column(pl.Boolean(), "Whether the job counts in the statistics (`--measure`)"),
}

ALLOCATION_COLUMNS: Mapping[str, Column] = {
    "job_id": Column(pl.String(), "Job that holds the resources"),
    "node": Column(pl.String(), "Node that they are on"),
    "role": Column(pl.String(), "worker, or server for a parameter server"),
    "gpu_ids": Column(pl.List(pl.Int64()), "Numbers of the GPUs on that node"),
    "gpus": Column(pl.Float64(), "Number of GPUs, or the share of one GPU"),
    "cpus": Column(pl.Float64(), "CPU cores"),
    "memory_gb": Column(pl.Float64(), "Memory in GB"),
    "storage_gb_per_s": Column(pl.Float64(), "Storage bandwidth in GB/s"),
    **{one.name: Column(pl.Float64(), f"{one.name}, in {one.unit}") for one in FURTHER},
    "slice_group": Column(
        pl.Int64(), "Jobs of one group share the same GPUs, in turns or packed; null: the job shares none"
    ),
    "from_seconds": Column(pl.Float64(), "Start of the interval"),
    "to_seconds": Column(pl.Float64(), "End of the interval"),
}

DECISION_COLUMNS: Mapping[str, Column] = {
    "time_seconds": Column(pl.Float64(), "Time of the decision"),
    "running": Column(pl.Int64(), "Jobs that run after the decision"),
    "waiting": Column(pl.Int64(), "Jobs that wait after the decision"),
    "started": Column(pl.Int64(), "Jobs that the decision starts"),
    "stopped": Column(pl.Int64(), "Jobs that the decision stops"),
    "changed": Column(pl.Int64(), "Jobs that the decision moves or resizes"),
    "free_gpus": Column(pl.Float64(), "GPUs that no job holds after the decision"),
    "free_cpus": Column(pl.Float64(), "CPU cores that no job holds after the decision"),
    "free_memory_gb": Column(pl.Float64(), "Memory that no job holds after the decision, GB"),
    "free_storage_gb_per_s": Column(
        pl.Float64(), "Storage bandwidth that no job holds after the decision, GB/s"
    ),
    "value": Column(pl.Float64(), "What the decision reaches, in the measure of `bound`; null: not measured"),
    "bound": Column(
        pl.Float64(), "Upper bound of `value` over all decisions (`--certify`); null: none computed"
    ),
}

REASON_COLUMNS: Mapping[str, Column] = {
    "job_id": Column(pl.String(), "Job that waits"),
    "reason": Column(pl.String(), "Code of the pending reason"),
    "parameters": Column(pl.String(), "Numbers of the reason, a JSON object"),
    "from_seconds": Column(pl.Float64(), "Start of the interval"),
    "to_seconds": Column(pl.Float64(), "End of the interval"),
}

COLUMNS: Mapping[str, Mapping[str, Column]] = {
    "jobs": JOB_COLUMNS,
    "allocations": ALLOCATION_COLUMNS,
    "decisions": DECISION_COLUMNS,
    "reasons": REASON_COLUMNS,
}
"""The tables of a record."""

TABLES: Mapping[str, dict[str, pl.DataType]] = {
    table: {name: column.dtype for name, column in columns.items()} for table, columns in COLUMNS.items()
}
"""Their types."""
JOBS, ALLOCATIONS, DECISIONS, REASONS = TABLES.values()
FIGURE_COLUMNS: Mapping[str, Collection[str]] = {
    "allocations": (
        *("node", "gpus", "cpus", "memory_gb", "storage_gb_per_s"),
        *("slice_group", "from_seconds", "to_seconds"),
    ),
    "reasons": ("job_id", "reason", "from_seconds", "to_seconds"),
}
"""Of the long tables, the columns from which the figures of a run follow; with the GPUs where jobs take turns on
them."""
NODE_QUANTITIES = tuple(resource.name for resource in RESOURCES)


@dataclass(frozen=True)
class CompactTable:
    """A table in little room: texts and lists, of which there are few, stand in it as numbers."""

    numbers: pl.DataFrame
    names: Mapping[str, pl.Series] = field(default_factory=dict)
    """Of these columns, what each number from 0 on stands for. No name: the columns are as they are."""

    def expanded(self) -> pl.DataFrame:
        """Return the table itself."""
        columns = (names.gather(self.numbers[name]).alias(name) for name, names in self.names.items())
        return self.numbers.with_columns(columns)

    def numbers_among(self, column: str, others: pl.Series) -> pl.Series:
        """Return the number of each row's text among others, all distinct; null: it is none of them."""
        numbers, names = self.numbers[column], self.names.get(column)
        if names is None:
            return numbers.cast(pl.Enum(others), strict=False).to_physical()
        if names.equals(others):
            return numbers
        return names.cast(pl.Enum(others), strict=False).to_physical().gather(numbers)


@dataclass(frozen=True)
class Record:
    """What happened in one run."""

    jobs: pl.DataFrame
    compact_allocations: CompactTable
    decisions: pl.DataFrame
    compact_reasons: CompactTable
    run: Mapping[str, Any]
    """Inputs, settings, versions and seed: enough to run it again.

    A real run also has `history`, its scheduler, settings and cluster from when on, and `until_seconds`, its end.
    """

    @cached_property
    def allocations(self) -> pl.DataFrame:
        """The table of allocations."""
        return self.compact_allocations.expanded()

    @cached_property
    def reasons(self) -> pl.DataFrame:
        """The table of pending reasons."""
        return self.compact_reasons.expanded()

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
        for name, kinds in TABLES.items():
            path = folder / f"{name}.parquet"
            compact: CompactTable | None = getattr(self, f"compact_{name}", None)
            if compact is None or not compact.names or compact.numbers.is_empty():
                write_parquet(getattr(self, name), path)
            else:
                write_compact(compact.numbers, compact.names, kinds, path)
        (folder / "run.json").write_text(as_json_text(self.run), encoding="utf-8")


def _node_table(cluster: Mapping[str, Any]) -> pl.DataFrame:
    rows = [
        (str(node["name"]), *(float(node.get(quantity) or 0) for quantity in NODE_QUANTITIES))
        for node in cluster["nodes"]
    ]
    quantities = {quantity: pl.Float64() for quantity in NODE_QUANTITIES}
    return pl.DataFrame(rows, schema={"node": pl.String(), **quantities}, orient="row")
