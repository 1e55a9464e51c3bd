"""Turns what a world wrote down into the record's tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muster.cluster import Cluster
from muster.cluster.ledger import gpu_ids
from muster.cluster.ledger_arrays import GPU, MICRO, ROLES, WHOLE
from muster.cluster.resources import RESOURCES
from muster.runtime.allocation_lifecycle import HeldArray, PendingArray
from muster.runtime.recording_core import explained_columns, held_columns
from muster.runtime.records import ALLOCATIONS, DECISIONS, JOBS, REASONS, CompactTable
from muster.schedulers.reasons import REASONS as REASON_CODES
from muster.schedulers.reasons import reason
from muster.schedulers.workers_and_servers.sizes import utility
from muster.workload.jobs import (
    CANCELLED,
    COMPLETED,
    REFUSED,
    TIMED_OUT,
    AskedArray,
    JobTable,
    requested_gpus,
)


def jobs_frame(table: JobTable, measured: NDArray[np.bool_], slowest: NDArray[np.float64]) -> pl.DataFrame:
    """The table of jobs; `slowest` are their slowest moments (`world.slowest`). A time that never came is null."""
    asked, facts = table.asked, table.facts
    completed = facts["state"] == COMPLETED
    in_system = np.where(completed, facts["finish"] - asked["submit"], np.nan)
    timed_out, cancelled = facts["state"] == TIMED_OUT, facts["state"] == CANCELLED
    outcome = np.select([completed, facts["state"] == REFUSED, timed_out, cancelled], [0, 1, 2, 3], 4)
    worth = [table.sized[field] for field in ("priority", "urgency", "target")]
    rated = ~np.isnan(table.sized["priority"])
    frame = pl.DataFrame(
        {
            "job_id": table.ids,
            "model": _named(table.model_names, asked["model"]),
            "tenant": _named(table.tenants, asked["tenant"]),
            "user": _named(table.users, asked["user"]),
            "gpus": requested_gpus(asked),
            "min_gpus": _bound(asked, "min_gpus"),
            "max_gpus": _bound(asked, "max_gpus"),
            "submit_seconds": asked["submit"],
            "start_seconds": facts["first_start"],
            "finish_seconds": np.where(completed | timed_out | cancelled, facts["finish"], np.nan),
            "jct_seconds": in_system,
            "wait_seconds": np.maximum(in_system - facts["run"], 0.0),
            "run_seconds": facts["run"],
            "ideal_seconds": asked["ideal"],
            "attained_gpu_seconds": facts["attained"],
            "iterations": asked["iterations"],
            "iterations_done": facts["done"],
            "preemptions": facts["preemptions"],
            "moves": facts["moves"],
            "input_stall_seconds": facts["input"],
            "compute_seconds": facts["compute"],
            "communication_seconds": facts["communication"],
            "restart_seconds": facts["restart"],
            "min_speedup_vs_fair_share": slowest[:, 0],
            "min_speedup_vs_slowest_fair_share": slowest[:, 1],
            "utility": np.where(rated & ~completed, 0.0, utility(in_system, *worth)),
            "utility_target_seconds": table.sized["target"],
            "deadline_seconds": np.where(np.isfinite(asked["deadline"]), asked["deadline"], np.nan),
            "outcome": _named(("completed", "refused", "timed_out", "cancelled", "unfinished"), outcome),
            "measured": measured,
        },
    )
    return frame.fill_nan(None).cast(JOBS).select(list(JOBS))  # type: ignore[arg-type]


def _bound(asked: AskedArray, name: Literal["min_gpus", "max_gpus"]) -> NDArray[np.float64]:
    """Fewest or most GPUs of each job; a share of a GPU where it asks for one."""
    bound: NDArray[np.float64] = asked[name] * (asked["milli"] / WHOLE)
    return bound


def allocations_table(
    held: HeldArray, table: JobTable, cluster: Cluster, columns: Collection[str] = ALLOCATIONS
) -> CompactTable:
    """The table of what was held, a row a job, node, role and stretch of time; these columns of it."""
    fields, first = held_columns(held)
    numbers = {
        "job_id": fields["job"],
        "node": fields["node"],
        "role": fields["role"],
        "gpu_ids": fields["mask"],
        "gpus": fields["gpus"],
        **{resource.name: fields["amount"][at] for at, resource in enumerate(RESOURCES) if at != GPU},
        "slice_group": pl.Series(fields["group"]).replace(-1, None),
        "from_seconds": fields["from"],
        "to_seconds": fields["to"],
    }
    gpus = [list(gpu_ids(mask)) for mask in held["mask"][first].tolist()]
    names = {
        "job_id": table.ids,
        "node": pl.Series([node.name for node in cluster.nodes]),
        "role": pl.Series(ROLES),
        "gpu_ids": pl.Series(gpus, dtype=pl.List(pl.Int64)),
    }
    return _compact(numbers, names, ALLOCATIONS, columns)


def decisions_frame(columns: NDArray[np.float64]) -> pl.DataFrame:
    """The table of decisions that changed something or have a bound; free amounts in millionths on the way in."""
    frame = pl.DataFrame(columns, schema=list(DECISIONS), orient="row")
    free = ["free_gpus", "free_cpus", "free_memory_gb", "free_storage_gb_per_s"]
    return frame.with_columns(pl.col(free) / MICRO, pl.col("value", "bound").fill_nan(None)).cast(DECISIONS)  # type: ignore[arg-type]


def reasons_table(
    explained: PendingArray, table: JobTable, columns: Collection[str] = REASONS
) -> CompactTable:
    """The table of why jobs waited, a row a stretch of time with one reason; these columns of it."""
    fields, first = explained_columns(explained)
    numbers = {
        "job_id": fields["job"],
        "reason": fields["code"],
        "parameters": fields["reason"],
        "from_seconds": fields["from"],
        "to_seconds": fields["to"],
    }
    names = {"job_id": table.ids, "reason": pl.Series(list(REASON_CODES))}
    if "parameters" in columns:
        # Lists of numbers, and no list of tuples: those bring the garbage collector in where there are thousands.
        codes, a, b = (explained[name][first].tolist() for name in ("code", "a", "b"))
        texts = [reason(code).to_json(*numbers) for code, *numbers in zip(codes, a, b, strict=True)]
        names["parameters"] = pl.Series(texts, dtype=pl.String)
    return _compact(numbers, names, REASONS, columns)


def _compact(
    numbers: Mapping[str, Any],
    names: Mapping[str, pl.Series],
    schema: Mapping[str, pl.DataType],
    columns: Collection[str],
) -> CompactTable:
    """The columns of a table that are asked for, in the order of the schema."""
    chosen = [name for name in schema if name in columns]
    kinds = {name: schema[name] for name in chosen if name not in names}
    table = pl.DataFrame({name: numbers[name] for name in chosen}).cast(kinds)  # type: ignore[arg-type]
    return CompactTable(table, {name: names[name] for name in chosen if name in names})


def _named(names: list[str] | tuple[str, ...], numbers: NDArray[Any]) -> pl.Series:
    return pl.Series(names, dtype=pl.String).gather(numbers)
