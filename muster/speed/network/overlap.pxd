"""How much of an all-reduce hides behind the backward pass, for compiled code."""

from libc.stdint cimport int64_t

cpdef enum:
    MOST_DIMENSIONS = 4  # GPUs of an island, islands of a machine, machines of a rack, racks

# What a model sends in an iteration, in the order in which the backward pass makes it.
cdef struct Messages:
    int64_t count
    double* ready_seconds
    double* gradient_gb
    double* update_seconds

# Of an all-reduce by dimension, innermost first.
cdef struct Costs:
    int64_t dimensions
    int64_t within_machine  # of the dimensions; the others use uplinks
    double latency_seconds[MOST_DIMENSIONS]
    double seconds_per_gb[MOST_DIMENSIONS]

# How long an iteration lasts beyond its compute, and for how long of it the uplinks are in use.
cdef struct Beyond:
    double seconds
    double busy

cdef Beyond beyond_compute(
    double compute_seconds, Messages messages, double stretched, double slowed, Costs* costs
) noexcept nogil
