"""What all jobs gain with one more on a node, for compiled code."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from muster.schedulers.allocation.gangs_core cimport Gangs
from muster.schedulers.joint.search cimport Guesses, Search

# A node for a job, how many jobs leave it, and what that gains.
cdef struct Trial:
    double gain
    int64_t node
    int64_t leave

cdef void begin_guesses(Guesses* guesses, Gangs* gangs) except *
cdef void forget_node(Search* search, int64_t node) noexcept nogil
cdef Trial best_node(Search* search, int64_t at) noexcept nogil
cdef void take_place(
    Search* search, int64_t at, Trial found, vector[int64_t]& queue, vector[bint]& lost
) noexcept nogil
cdef double counted_speed(Search* search, int64_t at) noexcept nogil
