"""Decides what becomes of a job when one of its starts has ended."""

from __future__ import annotations

from dataclasses import dataclass

from muster.formatting import duration
from muster.service.controller.starts import JobStart
from muster.service.engines import Exit, Observed
from muster.service.store.rows import JobRow, State, StateRequest

_RAN_WELL_SECONDS = 600.0
"""A start that lived for so long got somewhere, even if its job reports nothing."""
_LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class JobOutcome:
    """The state of a job after one of its starts has ended."""

    state: State
    message: str = ""
    deaths: int = 0
    """In a row, without progress between them."""
    failed_to_run: bool = False
    """Neither done nor asked to go: it is started again after a pause."""


def outcome(row: JobRow, start: JobStart, one: Observed, until: float) -> JobOutcome:
    """Decide by how and when it ended, and by what was requested of it."""
    got_somewhere = row.steps_done > start.steps_before or until - start.since >= _RAN_WELL_SECONDS
    deaths_before = 0 if got_somewhere else row.deaths
    asked_to = was_asked_to(start, one, until)
    if one.ended is Exit.COMPLETED and (not asked_to or is_done(row, start)):
        return JobOutcome(State.COMPLETED)
    if row.state_request is StateRequest.CANCEL:
        return JobOutcome(State.CANCELLED, "cancelled as asked")
    what = one.message or ("it ended" if one.status is None else f"it ended with status {one.status}")
    if one.ended is Exit.FAILED and not asked_to:
        return JobOutcome(State.FAILED, what)
    if row.is_over_time(start.ran(until)):
        return JobOutcome(
            State.TIMED_OUT, f"its time limit of {duration(row.request.time_limit_seconds)} is over"
        )
    if row.state_request is StateRequest.HOLD:
        return JobOutcome(State.HELD, deaths=deaths_before)
    if asked_to:
        return JobOutcome(State.QUEUED, deaths=deaths_before)
    if one.ended is Exit.LOST:
        return JobOutcome(State.QUEUED, deaths=deaths_before, failed_to_run=True)
    deaths = deaths_before + 1
    most = row.request.max_restarts
    if deaths > most:
        in_all = f"it has died {deaths} times without progress in between; " if deaths > 1 else ""
        return JobOutcome(State.FAILED, f"{what}; {in_all}max_restarts is {most}", deaths)
    return JobOutcome(State.QUEUED, deaths=deaths, failed_to_run=True)


def was_asked_to(start: JobStart, one: Observed, until: float) -> bool:
    """Whether it ended because it was asked to; not if it did, by itself, just before the notice.

    It lived when it was seen last: an end before that moment is one by a clock that was set meanwhile.
    """
    if start.notice_at is None:
        return False
    by_itself = one.ended in (Exit.COMPLETED, Exit.FAILED) and start.seen <= until < start.notice_at
    return not by_itself


def is_done(row: JobRow, start: JobStart) -> bool:
    """Whether a job that ended with 0 when it was asked to stop has done its work.

    One that has joined ends with 75 if it has not. Of another one its steps may show it; if they do not, it is
    started once more, as it may only have saved.
    """
    return start.joined or (row.request.steps is not None and row.steps_done >= row.request.steps)


def pause_seconds(failures: int) -> float:
    """Before a job that fails to run is started once more: 1, 2, 4 .. 60 s."""
    return min(2.0 ** min(failures - 1, 10), _LONGEST_PAUSE)
