"""How each stretch of time in which a job held GPUs has ended, by the job's state and history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from muster.service.engines import Exit
from muster.service.store.rows import (
    ASKED_TO_STOP,
    ENDED,
    STARTED,
    AllocationInterval,
    Event,
    JobLabel,
    StopReason,
)


class IntervalEnd(StrEnum):
    """How a stretch of time in which a job held something has ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    PREEMPTED = "preempted"
    MOVED = "moved"
    RESIZED = "resized"
    """Its start went on with other amounts at that moment."""
    HELD = "held"
    """Its owner or an operator held the job."""
    TAKEN_BACK = "taken_back"
    """The engine had not begun the start."""
    DIED = "died"
    """By itself or with its node; the job starts again."""
    STOPPED = "stopped"
    """An earlier version of the daemon asked it to stop, and did not note why."""


_BY_REASON = {
    StopReason.PREEMPTED: IntervalEnd.PREEMPTED,
    StopReason.MOVE: IntervalEnd.MOVED,
    StopReason.HOLD: IntervalEnd.HELD,
    StopReason.CANCEL: IntervalEnd.CANCELLED,
    StopReason.TIME_LIMIT: IntervalEnd.TIMED_OUT,
    StopReason.TAKEN_BACK: IntervalEnd.TAKEN_BACK,
}
_EXITS = frozenset(one.value for one in Exit)
KINDS = frozenset({STARTED, ASKED_TO_STOP}) | _EXITS
"""The kinds of lines of a history that `interval_ends` needs."""


def interval_ends(
    intervals: Sequence[AllocationInterval], jobs: Mapping[int, JobLabel], events: Iterable[Event]
) -> list[IntervalEnd | None]:
    """How each interval has ended; None: it has not.

    `events` are the lines of `KINDS` in the histories of these jobs, in their order, from the first interval on.
    """
    starts = _ends_of_starts(events)
    return [_end_of(interval, jobs.get(interval.job), starts) for interval in intervals]


def _end_of(
    interval: AllocationInterval, job: JobLabel | None, starts: Mapping[tuple[int, float], IntervalEnd]
) -> IntervalEnd | None:
    if interval.until is None:
        return None
    if job is not None and job.state in ENDED and job.finished == interval.until:
        return IntervalEnd(job.state.value)
    # A start that ends has a line of that moment; without one it went on.
    return starts.get((interval.job, interval.until), IntervalEnd.RESIZED)


def _ends_of_starts(events: Iterable[Event]) -> dict[tuple[int, float], IntervalEnd]:
    """How the starts of jobs that go on have ended, by job and time."""
    asked: dict[int, str] = {}
    found = {}
    for event in events:
        if event.kind == STARTED:
            asked.pop(event.job, None)
        elif event.kind == ASKED_TO_STOP:
            asked[event.job] = event.detail
        elif event.kind in _EXITS:
            why = asked.pop(event.job, None)
            found[event.job, event.time] = IntervalEnd.DIED if why is None else _asked_to(why)
    return found


def _asked_to(why: str) -> IntervalEnd:
    return _BY_REASON[StopReason(why)] if why in set(StopReason) else IntervalEnd.STOPPED
