"""Turns what a world wrote down into the record's tables."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muster.cluster import Cluster
from muster.cluster.ledger import gpu_ids
from muster.cluster.ledger_arrays import GPU, MICRO, ROLES, WHOLE
from muster.cluster.resources import RESOURCES
from muster.runtime.allocation_lifecycle import HeldArray, PendingArray
from muster.runtime.records import ALLOCATIONS, DECISIONS, JOBS, REASONS
from muster.schedulers.reasons import reason
from muster.schedulers.workers_and_servers.sizes import utility
from muster.workload.jobs import COMPLETED, REFUSED, TIMED_OUT, JobTable, requested_gpus


def jobs_frame(table: JobTable, measured: NDArray[np.bool_], slowest: NDArray[np.float64]) -> pl.DataFrame:
    """The table of jobs; `slowest` are their slowest moments (`world.slowest`). A time that never came is null."""
    asked, facts = table.asked, table.facts
    completed = facts["state"] == COMPLETED
    in_system = np.where(completed, facts["finish"] - asked["submit"], np.nan)
    timed_out = facts["state"] == TIMED_OUT
    outcome = np.select([completed, facts["state"] == REFUSED, timed_out], [0, 1, 2], 3)
    worth = [table.sized[field] for field in ("priority", "urgency", "target")]
    rated = ~np.isnan(table.sized["priority"])
    frame = pl.DataFrame(
        {
            "job_id": table.ids,
            "model": _named(table.model_names, asked["model"]),
            "tenant": _named(table.tenants, asked["tenant"]),
            "user": _named(table.users, asked["user"]),
            "gpus": requested_gpus(asked),
            "submit_seconds": asked["submit"],
            "start_seconds": facts["first_start"],
            "finish_seconds": np.where(completed | timed_out, facts["finish"], np.nan),
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
            "outcome": _named(("completed", "refused", "timed_out", "unfinished"), outcome),
            "measured": measured,
        },
    )
    return frame.fill_nan(None).cast(JOBS).select(list(JOBS))  # type: ignore[arg-type]


def allocations_frame(held: HeldArray, table: JobTable, cluster: Cluster) -> pl.DataFrame:
    """The table of what was held, a row a job, node, role and stretch of time."""
    mask = pl.DataFrame({"mask": held["mask"]})
    distinct = mask.unique()
    numbers = [list(gpu_ids(one)) for one in distinct["mask"].to_list()]
    gpus = distinct.with_columns(
        pl.Series("ids", numbers, dtype=pl.List(pl.Int64)),
        pl.Series("count", list(map(len, numbers)), dtype=pl.Float64),
    )
    of_mask = mask.join(gpus, on="mask", how="left", maintain_order="left")
    frame = pl.DataFrame(
        {
            "job_id": table.ids.gather(held["job"]),
            "node": _named([node.name for node in cluster.nodes], held["node"]),
            "role": _named(ROLES, held["role"]),
            "gpu_ids": of_mask["ids"],
            "gpus": of_mask["count"].to_numpy() * held["milli"] / WHOLE,
            **{
                resource.name: held["amount"][:, at] / MICRO
                for at, resource in enumerate(RESOURCES)
                if at != GPU  # which are counted in the mask
            },
            "slice_group": pl.Series(held["group"]).replace(-1, None),
            "from_seconds": held["from"],
            "to_seconds": held["to"],
        }
    )
    return frame.cast(ALLOCATIONS).select(list(ALLOCATIONS))  # type: ignore[arg-type]


def decisions_frame(columns: NDArray[np.float64]) -> pl.DataFrame:
    """The table of decisions that changed something or have a bound; free amounts in millionths on the way in."""
    frame = pl.DataFrame(columns, schema=list(DECISIONS), orient="row")
    free = ["free_gpus", "free_cpus", "free_memory_gb", "free_storage_gb_per_s"]
    return frame.with_columns(pl.col(free) / MICRO, pl.col("value", "bound").fill_nan(None)).cast(DECISIONS)  # type: ignore[arg-type]


def reasons_frame(explained: PendingArray, table: JobTable) -> pl.DataFrame:
    """The table of why jobs waited, a row a stretch of time with one reason."""
    said = pl.DataFrame({"code": explained["code"], "a": explained["a"], "b": explained["b"]})
    distinct = said.unique(maintain_order=True)
    texts = {
        "reason": [reason(code).name for code in distinct["code"].to_list()],
        "parameters": [reason(code).to_json(a, b) for code, a, b in distinct.iter_rows()],
    }
    named = distinct.with_columns(pl.Series(name, text, dtype=pl.String) for name, text in texts.items())
    words = said.join(named, on=said.columns, how="left", maintain_order="left")
    frame = pl.DataFrame(
        {
            "job_id": table.ids.gather(explained["job"]),
            "reason": words["reason"],
            "parameters": words["parameters"],
            "from_seconds": explained["from"],
            "to_seconds": explained["to"],
        }
    )
    return frame.cast(REASONS).select(list(REASONS))  # type: ignore[arg-type]


def _named(names: list[str] | tuple[str, ...], numbers: NDArray[np.int64]) -> pl.Series:
    return pl.Series(names, dtype=pl.String).gather(numbers)
