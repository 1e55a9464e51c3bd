"""What an interruption must be worth, for compiled code."""

cpdef bint repays(double gain_per_second, double cost_seconds, double horizon_seconds=*) noexcept nogil
