"""What it counts in joint's plans that a job runs, beside its speed."""

from __future__ import annotations

from muster.schedulers.allocation.worth import ForRunning

_WHERE_JOBS_ARE_STOPPED = ForRunning(0.05, 1e-6)
"""Little: the order has those run that end soon, and long jobs let them pass."""
_WHERE_JOBS_ARE_KEPT = ForRunning(0.75, 0.5)
"""The first half of the reference speed counts two and a half times: a job that waits may wait behind long ones."""


def for_running(stops_jobs: bool) -> ForRunning:
    """Return what it counts that a job runs, by whether the order stops running jobs for others."""
    return _WHERE_JOBS_ARE_STOPPED if stops_jobs else _WHERE_JOBS_ARE_KEPT
