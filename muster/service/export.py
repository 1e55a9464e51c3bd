"""Exports what happened in the simulator's formats: a record for `muster report`, a trace for `muster compare`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import Any

import polars as pl

import muster
from muster.formatting import duration
from muster.runtime.records import ALLOCATIONS, DECISIONS, JOBS, REASONS, CompactTable, Record
from muster.schedulers.reasons import REASONS as REASONS_BY_NAME
from muster.service.as_trace import trace_columns
from muster.service.daemon_status import DaemonStatus
from muster.service.store import Store
from muster.service.store.rows import ENDED, JobRow, State

TRACE, CLUSTER = "trace.csv", "cluster.toml"
"""Their names in the folder of the record."""
_PIECE = 2000
"""Rows that are Python's at a time, which take ten times the room of a table's."""
_OUTCOMES = {state: state.value for state in ENDED}


def record_and_trace(store: Store, status: DaemonStatus) -> tuple[Record, pl.DataFrame]:
    """Everything in the store, as of one moment, the end of the record; and what ran, as `trace_of_what_ran`."""
    with store.together():
        now = store.now()
        jobs, waiting, ran = [pl.DataFrame(schema=JOBS)], [pl.DataFrame(schema=REASONS)], [_trace([])]
        for rows in _all_jobs(store):
            jobs.append(pl.DataFrame([_job(row) for row in rows], schema=JOBS))
            waiting.append(pl.DataFrame(list(_waiting(rows, now)), schema=REASONS))
            ran.append(_trace(_that_ran(rows)))
        record = Record(
            jobs=pl.concat(jobs, rechunk=True),
            compact_allocations=CompactTable(_table(_allocations(store, now), ALLOCATIONS)),
            # The others only note how many jobs wait and what is free.
            decisions=_table(store.decisions(with_changes=True), DECISIONS),
            compact_reasons=CompactTable(
                pl.concat([_table(_reasons(store), REASONS), *waiting], rechunk=True)
            ),
            run=_described(status, sum(map(len, jobs)), store, now),
        )
    return record, _joined(ran)


def _table(rows: Iterator[Mapping[str, object]], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """All rows, piece by piece."""
    pieces = [pl.DataFrame(schema=schema)]
    while piece := list(islice(rows, _PIECE)):
        pieces.append(pl.DataFrame(piece, schema=schema))
    return pl.concat(pieces, rechunk=True)


def _allocations(store: Store, now: float) -> Iterator[dict[str, object]]:
    return (
        {
            "job_id": str(interval.job),
            "node": interval.allocation.node,
            "role": "worker",
            "gpu_ids": list(interval.allocation.gpu_ids),
            "gpus": interval.allocation.gpus,
            "cpus": interval.allocation.cpus,
            "memory_gb": interval.allocation.memory_gb,
            "storage_gb_per_s": interval.allocation.storage_gb_per_s,
            **interval.allocation.further_by_name,
            "slice_group": None,
            "from_seconds": interval.since,
            "to_seconds": now if interval.until is None else interval.until,
        }
        for interval in store.every_allocation_interval()
    )


def _reasons(store: Store) -> Iterator[dict[str, object]]:
    return (
        {
            "job_id": str(one.job),
            "reason": one.reason,
            "parameters": json.dumps(one.parameters),
            "from_seconds": one.since,
            "to_seconds": one.until,
        }
        for one in store.pending_intervals()
    )


def _waiting(rows: Sequence[JobRow], now: float) -> Iterator[dict[str, object]]:
    """What those of these jobs that wait now wait for."""
    return (
        {
            "job_id": str(row.id),
            "reason": row.reason,
            "parameters": json.dumps(dict(row.reason_parameters)),
            "from_seconds": max(row.reason_since, row.submitted),
            "to_seconds": now,
        }
        for row in rows
        if row.state is State.QUEUED and row.reason in REASONS_BY_NAME and row.reason != "placed"
    )


def trace_of_what_ran(store: Store, since: float = 0.0) -> pl.DataFrame:
    """The completed jobs that were submitted from `since` on, as a trace: what each took is what it really ran,
    without its restarts, and on the GPUs that it asks for."""
    return _joined([_trace([]), *(_trace(_that_ran(rows, since)) for rows in _all_jobs(store))])


def _that_ran(rows: Sequence[JobRow], since: float = 0.0) -> list[JobRow]:
    return [
        row for row in rows if row.state is State.COMPLETED and row.submitted >= since and _worked(row) > 0
    ]


def _trace(ran: Sequence[JobRow]) -> pl.DataFrame:
    seconds = [row.on_usual_gpus(_worked(row)) for row in ran]
    return pl.DataFrame(trace_columns(ran, [row.submitted for row in ran], seconds))


def _joined(traces: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """One trace; a column in which a piece states nothing has the type that it has in the others."""
    return pl.concat(traces, how="vertical_relaxed", rechunk=True)


def _worked(row: JobRow) -> float:
    """Seconds that it ran and made steps."""
    return row.run_seconds - row.restart_seconds


def _all_jobs(store: Store) -> Iterator[Sequence[JobRow]]:
    """All jobs by id, in pieces."""
    last = 0
    while piece := store.jobs(after=last, limit=_PIECE):
        yield piece
        last = piece[-1].id


def _job(row: JobRow) -> dict[str, object]:
    """One row of the table of jobs. What it would take alone is what it really ran, restarts left out."""
    request = row.request
    completed = row.state is State.COMPLETED
    in_system = row.finished - row.submitted if completed and row.finished is not None else None
    gpus = row.usual_gpus * request.gpu_share
    return {
        "job_id": str(row.id),
        "model": request.model or "",
        "tenant": request.tenant or "",
        "user": row.user,
        "gpus": gpus,
        "min_gpus": row.gpu_bounds[0] * request.gpu_share,
        "max_gpus": row.gpu_bounds[1] * request.gpu_share,
        "submit_seconds": row.submitted,
        "start_seconds": row.first_start,
        "finish_seconds": row.finished,
        "jct_seconds": in_system,
        "wait_seconds": None if in_system is None else max(in_system - row.run_seconds, 0.0),
        "run_seconds": row.run_seconds,
        "ideal_seconds": row.on_usual_gpus(_worked(row)),
        "attained_gpu_seconds": row.attained_gpu_seconds,
        "iterations": row.steps_done if completed or request.steps is None else float(request.steps),
        "iterations_done": row.steps_done,
        "preemptions": row.preemptions,
        "moves": row.moves,
        "input_stall_seconds": None,
        "compute_seconds": None,
        "communication_seconds": None,
        "restart_seconds": row.restart_seconds,
        "utility": None,
        "utility_target_seconds": None,
        "deadline_seconds": row.deadline,
        "outcome": _OUTCOMES.get(row.state, "unfinished"),
        "measured": True,
    }


def _described(status: DaemonStatus, jobs: int, store: Store, now: float) -> dict[str, object]:
    """What the simulator writes about a run, as far as it has a meaning here; and what was served from when on."""
    history = [{"from_seconds": since, **content} for since, content in store.configurations()]
    source = f"what ran here since {_day(store.origin)}"
    return {
        "muster_version": muster.__version__,
        "trace": {"source": source, "jobs": jobs, "notes": list(_changes(history))},
        **status.configuration(),
        "history": history,
        "until_seconds": now,
        "rules": {
            "name": "real",
            "queue": "as the scheduler has it",
            "gang": "all GPUs at once",
            "rounding": "none: real time",
            "tie_break": "submission",
        },
        "knowledge": "declared",
        "seed": 0,
    }


def _changes(history: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A sentence for each change of scheduler, settings or cluster."""
    for before, after in pairwise(history):
        named = [
            f"{what} {after[what]['name']}"
            for what in ("scheduler", "cluster")
            if after[what] != before[what]
        ]
        changed = " and ".join(named) or "other settings"
        yield f"from {duration(after['from_seconds'])} after its beginning on with {changed}"


def _day(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
