"""Why a job waits, or has what it has, in sentences: from the decision record, and from a simulation of the queue.

Jobs that the caller may see are named; of others, only the number is shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from muster.cluster.ledger import NodeAllocation
from muster.cluster.resources import FURTHER
from muster.formatting import counted, duration, gpus, thousandths
from muster.service.daemon_status import DaemonStatus
from muster.service.fitting import misfits
from muster.service.forecast import GUESSED_SECONDS, Forecast
from muster.service.holding import reasons_of_holding
from muster.service.queue_estimate import QueueEstimate
from muster.service.store import Store
from muster.service.store.rows import ENDED, Caller, JobRow, Phase, State, StateRequest
from muster.service.waiting import are_drained, describe_reason, nothing_starts

_NAMED_AT_MOST = 5


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
    estimated_start_seconds: float | None = None
    """From now; None: not known, or it runs."""

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def waits(row: JobRow) -> bool:
    """Whether there is a queue to look at: it neither runs nor is held, has ended or is about to."""
    return row.state is State.QUEUED and row.state_request is None


def why_not_waiting(row: JobRow, store: Store, status: DaemonStatus, asker: Caller) -> Why:
    """About a job that runs, is held, has ended, or is about to."""
    sentences = _not_waiting(row, store)
    if row.state is State.RUNNING and row.phase is Phase.RUNNING and row.state_request is None:
        held = store.allocation_intervals(open_only=True)
        seen = {one.job for one in held} if asker.operator else store.holders(asker.user)
        sentences += reasons_of_holding(row, held, status, lambda jobs: _listed(list(jobs), seen, {}))
    return Why(row.id, row.state, sentences, row.reason, row.reason_parameters)


def why_waiting(row: JobRow, estimate: QueueEstimate, status: DaemonStatus, asker: Caller, now: float) -> Why:
    """About a job that waits; `now` is in seconds of the store's clock."""
    expected = estimate.expected
    seen = {job for job, other in estimate.jobs.items() if asker.operator or other.user == asker.user}
    holders = sorted({interval.job for interval in estimate.held})
    ahead = _ahead(row, estimate)
    start = None if expected is None else expected.starts.get(row.id)
    passed = now - estimate.taken
    sentences = [
        *nothing_starts(status, asker, now),
        f"Job {row.id} ({row.request.name}, {gpus(row.request.gpus * row.request.gpu_share)}) has waited "
        f"{duration(_waited(row, now))}{_last_ran(row)}.",
        f"{_sentence(row, now, estimate.drained)}.",
        *_what_else_it_needs(row),
        *_what_is_not_here(row, status),
        *_what_is_drained(estimate, status),
        *_what_others_hold(status),
        *_who_holds(estimate, seen, status),
        *_what_keeps_its_gpus(estimate, seen),
        *(_who_is_ahead(ahead, seen, status) if start is not None else []),
        *_what_would_help(start, expected, holders, seen, passed),
        f"When it starts cannot be estimated: {estimate.obstacle}."
        if expected is None
        else _when(start, expected, status, passed),
    ]
    return Why(
        row.id,
        row.state,
        sentences,
        row.reason,
        row.reason_parameters,
        ahead=[job for job in ahead if job in seen],
        ahead_count=len(ahead),
        holders=[job for job in holders if job in seen],
        holders_count=len(holders),
        blocked_by=[job for job in status.blocked_by.get(row.id, ()) if job in seen],
        blocked_by_count=len(status.blocked_by.get(row.id, ())),
        estimated_start_seconds=None if start is None else max(start - passed, 0.0),
    )


def _not_waiting(row: JobRow, store: Store) -> list[str]:
    name = f"Job {row.id} ({row.request.name})"
    if row.state in ENDED:
        wrote = []
        if row.state in (State.FAILED, State.TIMED_OUT):
            wrote = [f"What it wrote: `muster logs {row.id}`."]
        return [f"{name} does not wait: it has {_ended_how(row)}.", *wrote]
    if row.state_request is StateRequest.CANCEL:
        return [f"{name} is being cancelled: it has been asked to end."]
    if row.state is State.HELD or row.state_request is StateRequest.HOLD:
        return [f"{name} is held; it competes again after `muster release {row.id}`."]
    limit, now = duration(row.request.time_limit_seconds), store.now()
    if row.phase is Phase.STOPPING and row.last_start is not None and row.is_over_time(row.last_start, now):
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
    since = duration(now - (row.last_start or row.submitted))
    return [f"{name} does not wait: it has run for {since} on {where or 'its machine'}.", *_restart_loss(row)]


def _restart_loss(row: JobRow) -> list[str]:
    if row.epoch < 2:
        return []
    lost, ran = duration(row.restart_seconds), duration(row.run_seconds)
    return [f"Its {row.epoch - 1} earlier starts lost {lost} of {ran} to start-ups, stops and unsaved work."]


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
    return now - (row.submitted if row.last_stop is None else row.last_stop)


def _last_ran(row: JobRow) -> str:
    return (
        ""
        if row.last_stop is None
        else f" since it was stopped, after {duration(row.run_seconds)} of running"
    )


def _what_else_it_needs(row: JobRow) -> list[str]:
    """Of resources that installed packages describe."""
    needs = [
        f"{row.request.resources[one.name]:g} {one.unit}{' for each GPU' if one.per_gpu else ''} ({one.name})"
        for one in FURTHER
        if one.name in row.request.resources
    ]
    return [f"It also needs {', '.join(needs)}."] if needs else []


def _what_is_not_here(row: JobRow, status: DaemonStatus) -> list[str]:
    """Of what it asks; the cluster was another one when it was taken."""
    return [
        f"As to its {problem.column} ({problem.found}): {problem.what}."
        for problem in misfits(
            row.request, status.cluster, even_gangs=status.engine_capabilities.same_amounts_on_each_node
        )
    ]


def _sentence(row: JobRow, now: float, drained: Sequence[str]) -> str:
    """The scheduler's own reason."""
    words = describe_reason(row, now, drained)
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
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]


def _who_holds(estimate: QueueEstimate, seen: Collection[int], status: DaemonStatus) -> list[str]:
    if not estimate.held:
        return ["No job holds a GPU now."]
    held: dict[int, float] = {}
    for interval in estimate.held:
        held[interval.job] = held.get(interval.job, 0.0) + interval.allocation.gpus
    rows = estimate.jobs
    names = {
        job: f" ({rows[job].request.name}, {thousandths(count)})"
        for job, count in held.items()
        if job in rows
    }
    most = sorted(held, key=lambda job: (-held[job], job))
    total = f"{thousandths(sum(held.values()))} of {gpus(status.cluster.total_gpus)} are held"
    return [f"{total}, by {_listed(most, seen, names)}."]


def _what_keeps_its_gpus(estimate: QueueEstimate, seen: Collection[int]) -> list[str]:
    """The jobs that are not stopped to make room for another one."""
    holders = sorted(
        {interval.job for interval in estimate.held if interval.allocation.gpu_ids} & estimate.jobs.keys()
    )
    kept = [job for job in holders if not estimate.jobs[job].preemptible]
    if not kept:
        return []
    listed = _listed(kept, seen, {})
    keep = "keeps its GPUs until it ends" if len(kept) == 1 else "keep their GPUs until they end"
    return [f"{listed[0].upper()}{listed[1:]} {keep}: not preemptible (muster status says why)."]


def _what_is_drained(estimate: QueueEstimate, status: DaemonStatus) -> list[str]:
    if not estimate.drained:
        return []
    what = are_drained(estimate.drained)
    return [f"Of {counted(len(status.cluster.nodes), 'node')}, {what}: nothing starts there."]


def _what_others_hold(status: DaemonStatus) -> list[str]:
    """Of jobs that are not Muster's, which only its engine knows."""
    count = sum(held.gpus for held in status.others.values())
    if not count:
        return []
    return [
        f"{thousandths(count)} of {gpus(status.cluster.total_gpus)} are held by jobs that Muster does not manage."
    ]


def _ahead(row: JobRow, estimate: QueueEstimate) -> list[int]:
    """Those that wait and are expected to start before a job, in that order."""
    starts = {} if estimate.expected is None else estimate.expected.starts
    if row.id not in starts:
        return []
    waiting = {job for job, other in estimate.jobs.items() if other.state is State.QUEUED and job != row.id}
    return [
        job
        for start, job in sorted((starts[job], job) for job in waiting & starts.keys())
        if start < starts[row.id]
    ]


def _who_is_ahead(ahead: Sequence[int], seen: Collection[int], status: DaemonStatus) -> list[str]:
    if not ahead:
        return [f"{status.scheduler} serves no waiting job before it."]
    served = f"{status.scheduler} serves {counted(len(ahead), 'waiting job')} before it"
    return [f"{served}: {_listed(ahead, seen, {})}."]


def _what_would_help(
    start: float | None,
    expected: Forecast | None,
    holders: Sequence[int],
    seen: Collection[int],
    passed: float,
) -> list[str]:
    """The ends of running jobs that come before its start."""
    if expected is None or start is None:
        return []
    ends = sorted((expected.ends[job], job) for job in holders if expected.ends.get(job, start + 1) <= start)
    if not ends:
        return []
    end, job = ends[-1]
    whose = f"job {job}" if job in seen else "a job of another user"
    return [f"What has to happen first: {whose} ends, in about {duration(max(end - passed, 0.0))}."]


def _when(start: float | None, expected: Forecast, status: DaemonStatus, passed: float) -> str:
    if start is None:
        return (
            "A simulation of the present queue never starts it: no machine that it may use is large enough."
        )
    guess = ""
    if expected.guessed:
        guess = (
            f"; how long {counted(expected.guessed, 'job')} will take is not known: {duration(GUESSED_SECONDS)} "
            f"more {'is' if expected.guessed == 1 else 'each is'} assumed"
        )
    left = max(start - passed, 0.0)
    when = "at the next decision" if left < status.round_seconds / 2 else f"in about {duration(left)}"
    return f"It is expected to start {when} (a simulation of the present queue{guess})."
