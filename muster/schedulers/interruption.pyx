"""What an interruption must be worth: the one rule by which schedulers change running jobs.

An interruption costs a job its stop, its start-up and the work since its last checkpoint. Two limits follow. A job
works `WORK_PER_INTERRUPTION` times as long as an interruption costs it before it may be interrupted, so that
restarts take at most 1 / (1 + WORK_PER_INTERRUPTION) of its time. And a change is made only if what it gains within
the horizon exceeds what it costs.
"""

WORK_PER_INTERRUPTION = 12.0
"""Seconds of work before an interruption, for each second that it costs: restarts take at most 7.7 % of the time."""
cdef double _HORIZON_SECONDS = 3600.0
HORIZON_SECONDS = _HORIZON_SECONDS
"""A change must repay its cost within this time."""


cpdef bint repays(
    double gain_per_second, double cost_seconds, double horizon_seconds=_HORIZON_SECONDS
) noexcept nogil:
    """Whether a change that gains so many seconds of work each second repays its cost within the horizon."""
    return gain_per_second * horizon_seconds > cost_seconds
