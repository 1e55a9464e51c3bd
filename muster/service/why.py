"""Why a job waits, or has what it has, in sentences: from the decision record, and from simulations of the queue.

Jobs that the caller may see are named; of others, only the number is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

from muster.cluster.ledger import NodeAllocation
from muster.cluster.resources import FURTHER
from muster.formatting import counted, duration, enumerated, gpus, is_or_are, thousandths
from muster.problems import InputError, Problem
from muster.schedulers.reasons import OVER_LIMIT, reason
from muster.service.daemon_status import DaemonStatus
from muster.service.fitting import misfits
from muster.service.holding import reasons_of_holding
from muster.service.honoured import ignored
from muster.service.learned_sizes import REMEMBERED, LearnedSizes
from muster.service.simulated_queue import GUESSED_SECONDS
from muster.service.start_intervals import QueueEstimate, StartAnswer
from muster.service.store import Store
from muster.service.store.rows import ENDED, AllocationInterval, Caller, JobRow, Phase, State, StateRequest
from muster.service.waiting import (
    ClosedNodes,
    describe_reason,
    describe_refusal,
    nothing_starts,
    reason_figures,
)
from muster.simulation.start_estimates import StartEstimate
from muster.workload.jobs import nodes_allowed

_NAMED_AT_MOST = 5
_OVER_LIMIT = reason(OVER_LIMIT).name
_OLD_SECONDS = 30.0
"""From then on the moment of a simulation is said."""


@dataclass(frozen=True)
class Why:
    """An answer to `muster why`."""

    job_id: int
    state: str
    sentences: list[str]
    reason: str
    parameters: Mapping[str, float]
    ahead: list[int] = field(default_factory=list)
    """Waiting jobs that are expected to start before it, as far as the asker may see them."""
    ahead_count: int = 0
    """All of them."""
    holders: list[int] = field(default_factory=list)
    """Jobs that hold GPUs now, likewise."""
    holders_count: int = 0
    blocked_by: list[int] = field(default_factory=list)
    """Jobs that the last decision served before it on nodes that it may use, likewise."""
    blocked_by_count: int = 0
    start: StartEstimate | None = None
    """When it is expected to start; None: not known, or it does not wait."""
    start_pending: bool = False
    """When it starts is being computed: a later question gets the answer."""

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"start": None if self.start is None else self.start.to_dict()}


def waits(row: JobRow) -> bool:
    """Whether there is a queue to look at: it neither runs nor is held, has ended or is about to."""
    return row.state is State.QUEUED and row.state_request is None


def why_not_waiting(row: JobRow, store: Store, status: DaemonStatus, asker: Caller) -> Why:
    """About a job that runs, is held, has ended, or is about to."""
    sentences = [*_not_waiting(row, store), *_refused(row, status, store.now())]
    if row.state is State.RUNNING and row.phase is Phase.RUNNING and row.state_request is None:
        held = store.held_now()
        seen = {one.job for one in held} if asker.operator else store.holders(asker.user)
        measured = store.with_size_steps(REMEMBERED) if row.request.changes_size else []
        learned = LearnedSizes.of([*measured, row])
        sentences += reasons_of_holding(
            row, held, status, lambda jobs: _listed(list(jobs), seen, {}), learned
        )
    if row.state not in ENDED:
        sentences += _what_is_ignored(row, status)
    return Why(row.id, row.state, sentences, row.reason, row.reason_parameters)


def why_waiting(row: JobRow, estimate: QueueEstimate, status: DaemonStatus, asker: Caller, now: float) -> Why:
    """About a job that waits; `now` is in seconds of the store's clock."""
    jobs = {other.id: other for other in estimate.seen.living}
    seen = {job for job, other in jobs.items() if asker.operator or other.user == asker.user}
    holders = sorted({interval.job for interval in estimate.seen.held if interval.allocation.gpu_ids})
    ahead = _ahead(row.id, estimate.answer)
    start = None if estimate.answer is None else estimate.answer.start(row.id, now)
    sentences = [
        *nothing_starts(status, asker, now),
        f"Job {row.id} ({row.request.name}, {gpus(row.usual_gpus * row.request.gpu_share)}) has waited "
        f"{duration(_waited(row, now))}{_last_ran(row)}.",
        *(_refused(row, status, now) or [f"{_sentence(row, now, estimate.seen.closed.drained, status)}."]),
        *_what_it_keeps(row),
        *_what_else_it_needs(row),
        *_what_is_not_here(row, status),
        *_what_is_closed(estimate.seen.closed, status),
        *_what_others_hold(status),
        *_who_holds(jobs, estimate.seen.held, seen, status),
        *_what_keeps_its_gpus(jobs, estimate.seen.held, seen),
        *(_who_is_ahead(ahead, seen, status) if start is not None else []),
        *_what_would_help(row.id, estimate.answer, _who_may_help(row, estimate, status), seen, now),
        _when(row.id, estimate, now),
    ]
    return Why(
        row.id,
        row.state,
        sentences,
        row.reason,
        reason_figures(row, status.last_decision)[0],
        ahead=[job for job in ahead if job in seen],
        ahead_count=len(ahead),
        holders=[job for job in holders if job in seen],
        holders_count=len(holders),
        blocked_by=[job for job in status.blocked_by.get(row.id, ()) if job in seen],
        blocked_by_count=len(status.blocked_by.get(row.id, ())),
        start=start,
        start_pending=estimate.pending,
    )


def _not_waiting(row: JobRow, store: Store) -> list[str]:
    name = f"Job {row.id} ({row.request.name})"
    if row.state in ENDED:
        wrote = []
        if row.state in (State.FAILED, State.TIMED_OUT):
            of_rank = f"--rank {row.failed_rank} " if row.failed_rank else ""
            wrote = [f"What it wrote: `muster logs {of_rank}{row.id}`."]
        return [f"{name} does not wait: it has {_ended_how(row)}.", *wrote]
    if row.state_request is StateRequest.CANCEL:
        return [f"{name} is being cancelled: it has been asked to end."]
    if row.state is State.HELD or row.state_request is StateRequest.HOLD:
        return [f"{name} is held; it competes again after `muster release {row.id}`."]
    limit, now = duration(row.request.time_limit_seconds), store.now()
    if row.phase is Phase.STOPPING and row.last_start is not None and row.is_over_time(now - row.last_start):
        return [
            f"{name} has been asked to stop: it has run for its time limit of {limit}. It does not start again."
        ]
    if row.phase is Phase.STOPPING:
        return [
            f"{name} has been asked to stop and saves its work; it goes on where the scheduler puts it next."
        ]
    where = ", ".join(
        f"{here.node} ({_gpus_of(here)}; {here.cpus:g} CPU, {here.memory_gb:.3g} GB)"
        for here in (interval.allocation for interval in store.allocation_intervals(row.id, open_only=True))
    )
    since = duration(max(now - (row.last_start or row.submitted), 0.0))
    if row.phase is Phase.STARTING:
        return [f"{name} is to start on {where or 'its machine'} and has had no process there for {since}."]
    return [f"{name} does not wait: it has run for {since} on {where or 'its machine'}.", *_restart_loss(row)]


def _refused(row: JobRow, status: DaemonStatus, now: float) -> list[str]:
    """Why the engine has not started a job that has a place."""
    found = describe_refusal(row, status, now)
    return [f"It is not started by {found}. Muster tries it again."] if found else []


def _restart_loss(row: JobRow) -> list[str]:
    if row.epoch < 2:
        return []
    lost, ran = duration(row.restart_seconds), duration(row.run_seconds)
    starts = counted(row.epoch - 1, "earlier start")
    return [f"Its {starts} lost {lost} of {ran} to start-ups, stops and unsaved work."]


def _gpus_of(here: NodeAllocation[str]) -> str:
    return f"GPU {', '.join(map(str, here.gpu_ids))}" if here.gpu_ids else "no GPU"


def _ended_how(row: JobRow) -> str:
    if row.state is State.COMPLETED:
        return "completed"
    if row.state is State.CANCELLED:
        return "been cancelled"
    if row.state is State.TIMED_OUT:
        return f"been stopped: {row.message}; it does not start again"
    return f"failed: {row.message}" if row.message else "failed"


def _waited(row: JobRow, now: float) -> float:
    since = row.last_stop if row.last_stop is not None and row.run_seconds > 0 else row.submitted
    return max(now - since, 0.0)


def _last_ran(row: JobRow) -> str:
    """Nothing of a job whose starts the engine has never begun."""
    if row.last_stop is None or not row.run_seconds > 0:
        return ""
    return f" since it was stopped, after {duration(row.run_seconds)} of running"


def _what_it_keeps(row: JobRow) -> list[str]:
    """Of a job whose script goes on only with as many processes as before."""
    kept = []
    if row.fixed_gpus is not None:
        kept.append(f"It keeps {gpus(row.fixed_gpus)}: its script cannot change its size.")
    if row.fixed_nodes:
        nodes = counted(len(row.fixed_nodes), "node")
        kept.append(f"It needs {nodes}, as before: its script goes on only with as many processes.")
    return kept


def _what_else_it_needs(row: JobRow) -> list[str]:
    """Of resources that installed packages describe."""
    needs = [
        f"{row.request.resources[one.name]:g} {one.unit}{' for each GPU' if one.per_gpu else ''} ({one.name})"
        for one in FURTHER
        if one.name in row.request.resources
    ]
    return [f"It also needs {', '.join(needs)}."] if needs else []


def _what_is_not_here(row: JobRow, status: DaemonStatus) -> list[str]:
    """Of what it asks; cluster or scheduler were others when it was taken."""
    even_gangs = status.engine_capabilities.same_amounts_on_each_node
    missing = misfits(row.request, status.cluster, even_gangs=even_gangs, fixed_gpus=row.fixed_gpus)
    return [*map(_as_to, missing), *_what_is_ignored(row, status)]


def _what_is_ignored(row: JobRow, status: DaemonStatus) -> list[str]:
    """Of what it asks by the scheduler that serves, with what its owner can do."""
    return [_as_to(one.of_job(row.id)) for one in ignored(row.request, status.policy)]


def _as_to(problem: Problem) -> str:
    return f"As to its {problem.column} ({problem.found}): {problem.what}."


def _sentence(row: JobRow, now: float, drained: Sequence[str], status: DaemonStatus) -> str:
    """The scheduler's own reason."""
    words = describe_reason(row, now, drained, status.last_decision)
    if row.deaths == 1:
        words += "; its last start was cut short, so the next one is delayed"
    elif row.deaths > 1:
        words += (
            f"; its last {row.deaths} starts were cut short, without progress between them, so the next one "
            "is delayed"
        )
    return words[0].upper() + words[1:]


def _listed(jobs: Sequence[int], seen: Collection[int], names: Mapping[int, str]) -> str:
    """`jobs 3 (bert, 4), 4 (gnmt, 2) and 5 of others`."""
    own = [job for job in jobs if job in seen]
    parts = [f"{job}{names.get(job, '')}" for job in own[:_NAMED_AT_MOST]]
    if parts:
        parts[0] = f"{'job' if len(own) == 1 else 'jobs'} {parts[0]}"
    if (more := len(own) - _NAMED_AT_MOST) > 0:
        parts.append(f"{more} more")
    if others := len(jobs) - len(own):
        parts.append(f"{others} of others" if own else f"{counted(others, 'job')} of others")
    return enumerated(parts)


def _who_holds(
    rows: Mapping[int, JobRow],
    intervals: Sequence[AllocationInterval],
    seen: Collection[int],
    status: DaemonStatus,
) -> list[str]:
    held: dict[int, float] = {}
    for interval in intervals:
        if interval.allocation.gpu_ids:
            held[interval.job] = held.get(interval.job, 0.0) + interval.allocation.gpus
    if not held:
        return ["No job holds a GPU now."]
    names = {
        job: f" ({rows[job].request.name}, {thousandths(count)})"
        for job, count in held.items()
        if job in rows
    }
    most = sorted(held, key=lambda job: (-held[job], job))
    count = sum(held.values())
    total = f"{thousandths(count)} of {gpus(status.cluster.total_gpus)} {is_or_are(count)} held"
    return [f"{total}, by {_listed(most, seen, names)}."]


def _what_keeps_its_gpus(
    rows: Mapping[int, JobRow], intervals: Sequence[AllocationInterval], seen: Collection[int]
) -> list[str]:
    """The jobs that are not stopped to make room for another one."""
    holders = sorted({interval.job for interval in intervals if interval.allocation.gpu_ids} & rows.keys())
    kept = [job for job in holders if not rows[job].preemptible]
    if not kept:
        return []
    listed = _listed(kept, seen, {})
    keep = "keeps its GPUs until it ends" if len(kept) == 1 else "keep their GPUs until they end"
    return [f"{listed[0].upper()}{listed[1:]} {keep}: not preemptible (muster status says why)."]


def _what_is_closed(closed: ClosedNodes, status: DaemonStatus) -> list[str]:
    if not closed.names:
        return []
    nodes = counted(len(status.cluster.nodes), "node")
    return [f"Of {nodes}, {closed.words()}: nothing starts there."]


def _what_others_hold(status: DaemonStatus) -> list[str]:
    """Of jobs that are not Muster's, which only its engine knows."""
    count = sum(held.gpus for held in status.others.values())
    if not count:
        return []
    return [
        f"{thousandths(count)} of {gpus(status.cluster.total_gpus)} {is_or_are(count)} held by jobs that Muster "
        "does not manage."
    ]


def _ahead(job: int, answer: StartAnswer | None) -> list[int]:
    """Those that wait and are expected to start before a job, in that order."""
    starts = {} if answer is None else answer.found[0].starts
    own = starts.get(str(job))
    if own is None:
        return []
    medians = sorted((start.median, int(other)) for other, start in starts.items())
    return [other for start, other in medians if start < own.median]


def _who_is_ahead(ahead: Sequence[int], seen: Collection[int], status: DaemonStatus) -> list[str]:
    if not ahead:
        return [f"{status.scheduler} serves no waiting job before it."]
    served = f"{status.scheduler} serves {counted(len(ahead), 'waiting job')} before it"
    return [f"{served}: {_listed(ahead, seen, {})}."]


def _who_may_help(row: JobRow, estimate: QueueEstimate, status: DaemonStatus) -> set[int]:
    """Jobs that give back what it may use: on its nodes, and of its tenant where that is at its limit."""
    try:
        allowed = nodes_allowed(row.request.constraint, status.cluster, "request")
    except InputError:  # The cluster was another one when the job was taken.
        return set()
    names = {node.name for node, may in zip(status.cluster.nodes, allowed, strict=True) if may}
    found = {interval.job for interval in estimate.seen.held if interval.allocation.node in names}
    return found & set(status.blocked_by.get(row.id, ())) if row.reason == _OVER_LIMIT else found


def _what_would_help(
    job: int, answer: StartAnswer | None, helpers: Collection[int], seen: Collection[int], now: float
) -> list[str]:
    """The last end of one of these running jobs that is expected before its start."""
    own = None if answer is None else answer.found[0].starts.get(str(job))
    if answer is None or own is None:
        return []
    expected = answer.found[0].ends
    ends = [(end, other) for other in helpers if (end := expected.get(str(other), inf)) <= own.median]
    if not ends:
        return []
    end, running = max(ends)
    whose = f"job {running}" if running in seen else "a job of another user"
    left = max(end - (now - answer.question.state.now), 0.0)
    return [f"What has to happen first: {whose} ends, in about {duration(left)}."]


def _when(job: int, estimate: QueueEstimate, now: float) -> str:
    """When a job starts, with the interval."""
    answer = estimate.answer
    if answer is None and estimate.pending:
        return (
            "When it starts is being computed: ask again in a few seconds, or wait for the answer with "
            "`muster queue --start`."
        )
    if answer is None:
        return f"When it starts cannot be estimated: {estimate.obstacle}."
    start, guesses, simulations = answer.start(job, now), _guesses(answer), _simulations(answer, now)
    if start is not None and start.draws == 1:
        return f"It is expected to start in {duration(start.median)} ({simulations}{guesses})."
    if start is not None:
        interval = f"{duration(start.low)} to {duration(start.high)}"
        return (
            f"It is expected to start in {duration(start.median)} (80 % interval: {interval}; {simulations}"
            f"{guesses})."
        )
    if str(job) in answer.question.state.waiting["job_id"]:
        some = "the simulation of the queue" if answer.draws == 1 else f"some of {simulations}"
        return f"When it starts cannot be said: in {some} it never does."
    return "A simulation of the present queue never starts it: no machine that it may use is large enough."


def _simulations(answer: StartAnswer, now: float) -> str:
    """`40 simulations of the queue`, and of when, where the queue is another one by now."""
    simulated = f"{counted(answer.draws, 'simulation')} of the queue"
    age = now - answer.question.state.now
    return simulated if age < _OLD_SECONDS else f"{simulated} as it was {duration(age)} ago"


def _guesses(answer: StartAnswer) -> str:
    count = answer.question.guessed
    if not count:
        return ""
    each = "is" if count == 1 else "each is"
    return (
        f"; how long {counted(count, 'job')} will take is not known: {duration(GUESSED_SECONDS)} more {each} "
        "assumed"
    )
