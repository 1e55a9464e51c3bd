"""What an interruption must be worth, for compiled code; `interruption` says why."""


cdef inline bint repays(double gain_per_second, double cost_seconds, double horizon_seconds) noexcept nogil:
    """Whether a change that gains so many seconds of work each second repays its cost within the horizon."""
    return gain_per_second * horizon_seconds > cost_seconds
