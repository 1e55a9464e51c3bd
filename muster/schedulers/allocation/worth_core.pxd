"""What it counts that jobs run, for compiled code."""

# What it counts that a job runs, as a part of its reference speed: all of it from the speed `up_to` on.
cdef struct ForRunning:
    double worth
    double up_to

cdef ForRunning for_running_of(object running) except *

cdef inline double running_counts(ForRunning* running, double speed) noexcept nogil:
    """What it counts that a job runs at a speed."""
    return running.worth if speed >= running.up_to else running.worth * speed / running.up_to
