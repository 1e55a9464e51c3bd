"""When waiting jobs start, with an interval: the question, from the queue as the store has it.

The queue is simulated as it is, each time with other durations of the jobs of which it is not known how long they take
(`muster.simulation.start_estimates`). The same is done for logs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.problems import InputError
from muster.runtime.snapshots.taken import settings_of_scheduler
from muster.schedulers.registry import build
from muster.service.as_trace import trace_columns
from muster.service.daemon_status import DaemonStatus
from muster.service.honoured import amounts_if_unstated
from muster.service.learned_sizes import LearnedSizes
from muster.service.request import JobRequest
from muster.service.simulated_models import simulated_model, times_usual
from muster.service.simulated_queue import (
    GUESSED_SECONDS,
    NoEstimate,
    cluster_without,
    coarse_turn,
    competing,
    held_by_job,
    seconds_left,
    seconds_of_work,
)
from muster.service.start_simulations import StartQuestion
from muster.service.store.rows import AllocationInterval, JobRow, State
from muster.service.waiting import ClosedNodes
from muster.simulation import Options
from muster.simulation.start_estimates import QueueState, smaller_sizes
from muster.workload.traces.columns import COLUMNS, dtype_of

ASKED = 0
"""The number of the job that is not submitted; those of jobs begin with 1."""
MOST_ENDED = 500
"""Newest jobs that have ended, from which durations and jobs to come are drawn."""
_LEAST_PAST_SECONDS = 3600.0
"""A burst of submissions of a young daemon says nothing of the hours to come."""
_LEAST_SECONDS = 1.0
_OF_TRACE = {"job_id", "submit_seconds", "duration_seconds", "time_limit_seconds"}


@dataclass(frozen=True)
class SeenQueue:
    """The queue at one moment, as the store has it."""

    now: float
    """Seconds of the store's clock."""
    living: Sequence[JobRow]
    ended: Sequence[JobRow]
    """The newest ones."""
    held: Sequence[AllocationInterval]
    closed: ClosedNodes


def question_of(
    seen: SeenQueue, status: DaemonStatus, draws: int, shapes: Sequence[JobRow] = ()
) -> StartQuestion:
    """The question about a queue; NoEstimate says why it cannot be asked."""
    name, settings = _made_by(status)
    cluster = cluster_without(status.cluster, seen.closed.names)
    living = competing(seen.living, cluster, status.policy)
    if not living and not shapes:
        raise NoEstimate("no waiting job could start")
    if_unstated = amounts_if_unstated(status.policy, status.cluster)
    rows = [replace(row, request=row.request.stating(if_unstated)) for row in (*living, *shapes)]
    whole, by_job = status.cluster, held_by_job(seen.held, status.cluster)
    held = [by_job.get(row.id, ()) for row in rows]
    learned = LearnedSizes.of([*seen.ended, *living])
    known_models = status.models()
    models = [
        simulated_model(row, known_models.get((row.request.model or "").lower()), here, learned, whole)
        for row, here in zip(rows, held, strict=True)
    ]
    seen_rows = list(zip(rows, models, held, strict=True))
    work = [seconds_of_work(*one, whole, seen.now) for one in seen_rows]
    sizes = [times_usual(*one, whole) for one in seen_rows]
    ended = [row for row in seen.ended if row.first_start is not None and row.run_seconds > 0]
    known, guesses = (work, 0) if ended else _guessed(rows, work, sizes, len(living))
    believed = pl.Series("believed_seconds", work, pl.Float64)
    jobs = _frame(rows, known, sizes, seen.now).with_columns(believed)
    names = pl.Series([None if model is None else model.name for model in models], dtype=pl.String)
    jobs = jobs.with_columns(names.fill_null(jobs["model"]).alias("model"))
    running = sum(row.state is State.RUNNING for row in living)
    state = QueueState(
        seen.now,
        jobs.head(running),
        tuple(_places(living[:running], seen.held, cluster)),
        jobs.slice(running, len(living) - running),
        _ended_frame(ended, seen.now),
        asked=[name for name in trace_columns([], [], []) if name not in _OF_TRACE],
        least_past_seconds=_LEAST_PAST_SECONDS,
    )
    lengths = [GUESSED_SECONDS if left is None else left for left in map(seconds_left, rows, work)]
    turn = coarse_turn(rows, lengths, status)
    options = Options(
        end_at_limit=True,
        skip_impossible=True,
        records=False,
        knowledge="none",
        round_seconds=turn,
        round_origin=0.0 if turn is None else seen.now,
        restart_cost_seconds=status.restart_cost_seconds,
    )
    ones = [jobs.slice(len(living) + at, 1) for at in range(len(shapes))]
    draws = draws if state.draws_differ else 1
    named = {**known_models, **{model.name: model for model in models if model is not None}}
    return StartQuestion(state, ones, cluster, name, settings, named, options, draws, guesses)


def shapes_of(request: JobRequest, user: str, now: float) -> list[JobRow]:
    """A job that is not submitted, and the same with fewer GPUs, each with its part of CPUs and memory."""
    shapes = [request]
    for gpus in smaller_sizes(request.gpus):
        part = gpus / request.gpus
        parts = {
            name: amount * part
            for name in ("cpus", "memory_gb", "own_memory_gb")
            if (amount := getattr(request, name)) is not None
        }
        shapes.append(request.model_copy(update={"gpus": gpus, **parts}))
    return [JobRow(ASKED, user, shape, now) for shape in shapes]


def _made_by(status: DaemonStatus) -> tuple[str, Mapping[str, str]]:
    """Name and settings that make the same scheduler again in another process."""
    policy = status.policy
    name = status.scheduler_named or policy.name
    settings = settings_of_scheduler(policy, name)
    try:
        again = build(name, settings)
    except InputError:
        again = None
    if again is None or again.describe() != policy.describe():
        raise NoEstimate(f"scheduler {policy.name} cannot be made again in a process of its own")
    return name, settings


def _guessed(
    rows: Sequence[JobRow], work: Sequence[float | None], sizes: Sequence[float], living: int
) -> tuple[list[float | None], int]:
    """How long jobs take from now on where nothing has ended, and of how many of the first `living` it is a guess."""
    left = [seconds_left(row, seconds) for row, seconds in zip(rows, work, strict=True)]
    known = [GUESSED_SECONDS * size if one is None else one for one, size in zip(left, sizes, strict=True)]
    return list(known), left[:living].count(None)


def _ran(row: JobRow, size: float, now: float) -> float:
    """How long it has run, on the GPUs that it asks for; it holds `size` times as many."""
    since = row.last_start if row.state is State.RUNNING else None
    return row.on_usual_gpus(row.run_seconds) + (0.0 if since is None else max(now - since, 0.0) * size)


def _limit_left(row: JobRow, now: float) -> float | None:
    """How long it may still run."""
    limit = row.request.time_limit_seconds
    since = row.last_start if row.state is State.RUNNING else None
    ran = row.run_seconds + (0.0 if since is None else max(now - since, 0.0))
    return None if limit is None else max(limit - ran, _LEAST_SECONDS)


def _frame(
    rows: Sequence[JobRow], known: Sequence[float | None], sizes: Sequence[float], now: float
) -> pl.DataFrame:
    """Jobs as a trace has them. One that runs began when it would have without interruptions on its usual GPUs."""
    columns = trace_columns(rows, [row.submitted for row in rows], [0.0] * len(rows))
    limits = [row.request.time_limit_seconds for row in rows]
    columns["time_limit_seconds"] = [
        limit if row.state is State.RUNNING else _limit_left(row, now)
        for limit, row in zip(limits, rows, strict=True)
    ]
    kinds = {column.name: dtype_of(column) for column in COLUMNS}
    starts = [now - _ran(row, size, now) for row, size in zip(rows, sizes, strict=True)]
    return pl.DataFrame(columns, schema={name: kinds[name] for name in columns}).with_columns(
        pl.Series("start_seconds", starts, pl.Float64),
        pl.Series("known_seconds", known, pl.Float64),
        pl.Series("limit_left_seconds", [_limit_left(row, now) for row in rows], pl.Float64),
        pl.Series("attained_gpu_seconds", [row.attained_gpu_seconds for row in rows], pl.Float64),
    )


def _ended_frame(rows: Sequence[JobRow], now: float) -> pl.DataFrame:
    """Jobs that have ended, as long as they have run in all."""
    jobs = _frame(rows, [None] * len(rows), [1.0] * len(rows), now)
    limits = pl.Series("time_limit_seconds", [row.request.time_limit_seconds for row in rows], pl.Float64)
    return jobs.with_columns(limits, pl.lit(now).alias("end_seconds"))


def _places(
    running: Sequence[JobRow], held: Collection[AllocationInterval], cluster: Cluster
) -> list[Sequence[NodeAllocation]]:
    """What each running job holds; nothing where a part of it is on a node that is left out."""
    index = cluster.node_index
    by_job: dict[int, list[NodeAllocation[str]]] = defaultdict(list)
    for interval in held:
        by_job[interval.job].append(interval.allocation)
    return [
        [here.on(index[here.node]) for here in by_job[row.id]]
        if all(here.node in index for here in by_job[row.id])
        else []
        for row in running
    ]
