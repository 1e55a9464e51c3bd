"""The cost of an interruption: measured at a job's own starts, expected from similar jobs before that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.service.controller.starts import JobStart
from muster.service.store.rows import JobRow
from muster.workload.models import Model

LONGEST_START_UP = 10.0
"""Times the expected cost of an interruption that a start-up is waited for; a longer one counts as work after that."""


class RestartCosts:
    """Seconds of stop and start-up that one interruption of a job is expected to cost, apart from lost work."""

    def __init__(self, default: float) -> None:
        self._default = default
        self._of_similar: dict[tuple[str, str], float] = {}
        """Seconds measured last, by user and name of the job."""

    def learn(self, measured: Iterable[tuple[str, str, float]]) -> None:
        """Remember what jobs of a user and a name have shown, for those that come after them."""
        self._of_similar |= {(user, name): seconds for user, name, seconds in measured}

    def learn_from(self, row: JobRow) -> None:
        """Remember what one job has shown."""
        if (seconds := row.restart_cost_seconds) is not None:
            self.learn([(row.user, row.request.name, seconds)])

    def expected(self, row: JobRow, models: Mapping[str, Model]) -> float:
        """Seconds by its own starts, else its model's file, else the user's jobs of its name, else the setting."""
        if row.restart_cost_seconds is not None:
            return row.restart_cost_seconds
        model = models.get((row.request.model or "").lower())
        if model is not None and model.restart_seconds is not None:
            return model.restart_seconds
        return self._of_similar.get((row.user, row.request.name), self._default)


def measured_stop(row: JobRow, start: JobStart, until: float) -> float | None:
    """Seconds from the request to stop until its GPUs were free; None where that is not known or not typical.

    A job that saves its work ends faster in its start-up, when there is nothing to save yet.
    """
    if start.stop_sent is None or start.notice_at is None or start.notice_at <= start.since:
        return None
    if until < start.stop_sent or (row.joined and start.first_step is None):
        return None
    return until - start.stop_sent


def lost_seconds(row: JobRow, start: JobStart, until: float, expected: float, *, ended: bool) -> float:
    """Seconds of a start that restarts take: start-up, stop, and work that was not saved.

    With a job that `ended`, however it did, no work is lost to a restart. Of a start that never reports, nothing is
    known but what its end says.
    """
    ran = start.ran(until)
    interrupted = start.stop_sent is not None and not ended
    if interrupted and not row.saves_when_stopped:
        return ran
    if start.first_step is None:
        if ended:
            return 0.0
        return min(expected, ran) if interrupted and not row.joined else ran
    stop = (
        max(until - max(start.stop_sent, start.first_step), 0.0) if interrupted and start.stop_sent else 0.0
    )
    return min(start.first_step - start.since + stop, ran)
