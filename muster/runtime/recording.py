"""Turns what a world wrote down into the record's tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muster.cluster import Cluster
from muster.cluster.ledger import gpu_ids
from muster.cluster.ledger_arrays import GPU, MICRO, ROLES, WHOLE
from muster.cluster.resources import RESOURCES
from muster.runtime.allocation_lifecycle import HeldArray, PendingArray
from muster.runtime.recording_core import distinct_masks, distinct_reasons
from muster.runtime.records import ALLOCATIONS, DECISIONS, JOBS, REASONS
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


def allocations_frame(
    held: HeldArray, table: JobTable, cluster: Cluster, columns: Collection[str] = ALLOCATIONS
) -> pl.DataFrame:
    """The table of what was held, a row a job, node, role and stretch of time; these columns of it."""
    mask_of, first = distinct_masks(held)
    gpus = [list(gpu_ids(mask)) for mask in held["mask"][first].tolist()]
    counts = np.array([len(one) for one in gpus], np.float64)
    makers: dict[str, Callable[[], Any]] = {
        "job_id": lambda: table.ids.gather(held["job"]),
        "node": lambda: _named([node.name for node in cluster.nodes], held["node"]),
        "role": lambda: _named(ROLES, held["role"]),
        "gpu_ids": lambda: pl.Series(gpus, dtype=pl.List(pl.Int64)).gather(mask_of),
        "gpus": lambda: counts[mask_of] * held["milli"] / WHOLE,
        **{
            resource.name: partial(_amounts, held, at)
            for at, resource in enumerate(RESOURCES)
            if at != GPU  # which are counted in the mask
        },
        "slice_group": lambda: pl.Series(held["group"]).replace(-1, None),
        "from_seconds": lambda: held["from"],
        "to_seconds": lambda: held["to"],
    }
    return _made(makers, ALLOCATIONS, columns)


def _amounts(held: HeldArray, resource: int) -> NDArray[np.float64]:
    amounts: NDArray[np.float64] = held["amount"][:, resource] / MICRO
    return amounts


def decisions_frame(columns: NDArray[np.float64]) -> pl.DataFrame:
    """The table of decisions that changed something or have a bound; free amounts in millionths on the way in."""
    frame = pl.DataFrame(columns, schema=list(DECISIONS), orient="row")
    free = ["free_gpus", "free_cpus", "free_memory_gb", "free_storage_gb_per_s"]
    return frame.with_columns(pl.col(free) / MICRO, pl.col("value", "bound").fill_nan(None)).cast(DECISIONS)  # type: ignore[arg-type]


def reasons_frame(
    explained: PendingArray, table: JobTable, columns: Collection[str] = REASONS
) -> pl.DataFrame:
    """The table of why jobs waited, a row a stretch of time with one reason; these columns of it."""
    reason_of, first = distinct_reasons(explained)
    # Lists of numbers, and no list of tuples: those bring the garbage collector in where there are thousands.
    codes, a, b = (explained[name][first].tolist() for name in ("code", "a", "b"))
    makers: dict[str, Callable[[], Any]] = {
        "job_id": lambda: table.ids.gather(explained["job"]),
        "reason": lambda: _named([reason(code).name for code in codes], reason_of),
        "parameters": lambda: _named(
            [reason(code).to_json(*numbers) for code, *numbers in zip(codes, a, b, strict=True)], reason_of
        ),
        "from_seconds": lambda: explained["from"],
        "to_seconds": lambda: explained["to"],
    }
    return _made(makers, REASONS, columns)


def _made(
    makers: Mapping[str, Callable[[], Any]], schema: Mapping[str, pl.DataType], columns: Collection[str]
) -> pl.DataFrame:
    """The columns of a table that are asked for, each made by its own function, in the order of the schema."""
    chosen = {name: kind for name, kind in schema.items() if name in columns}
    return pl.DataFrame({name: makers[name]() for name in chosen}).cast(chosen)  # type: ignore[arg-type]


def _named(names: list[str] | tuple[str, ...], numbers: NDArray[Any]) -> pl.Series:
    return pl.Series(names, dtype=pl.String).gather(numbers)
