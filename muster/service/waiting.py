"""Why a queued job does not run, as a clause: `it needs 2 GPUs and 0 are free`."""

from __future__ import annotations

from math import inf

from muster.schedulers.reasons import PROTECTED, REASONS, reason
from muster.service.board import Board
from muster.service.store.rows import Caller, JobRow, State
from muster.words import counted, duration

_PROTECTED = reason(PROTECTED)


def reason_in_words(row: JobRow, now: float) -> str:
    """Empty for a job that does not wait; `now` is in seconds of the store's clock."""
    if row.state is not State.QUEUED or row.reason not in REASONS:
        return ""
    if row.reason == "placed":
        return "it has a place and begins as soon as the GPUs are empty"
    kind = reason(REASONS[row.reason])
    figures = dict(row.reason_parameters)
    if (
        kind is _PROTECTED and kind.b in figures
    ):  # Noted as of the decision: some of these seconds have passed.
        figures[kind.b] = max(figures[kind.b] - (now - row.reason_since), 0.0)
    return kind.words(figures.get(kind.a, inf), figures.get(kind.b, inf))


def nothing_starts(board: Board, asker: Caller, now: float) -> list[str]:
    """Said before all else where the scheduler fails; what it says may be about anybody's job."""
    if board.failing is None:
        return []
    failing = board.failing
    what = f": {failing.words}" if asker.operator else ""
    times, since = counted(failing.count, "time"), duration(max(now - failing.since, 0.0))
    return [f"The scheduler has failed {times} in {since}{what}; what runs goes on, nothing new starts."]
