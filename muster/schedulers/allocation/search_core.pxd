"""Choosing nodes for one job on a draft, for compiled code. A need is by kind of node and resource."""

from libc.stdint cimport int64_t

from muster.schedulers.allocation.draft_core cimport Draft
from muster.schedulers.allocation.gangs_core cimport Gangs

# The best-fitting node for a whole job with its demand, with its fair share, with its GPUs alone; -1: none.
cdef struct BestFits:
    int64_t with_best
    int64_t with_fair
    int64_t with_gpus

cdef int64_t gpus_that_fit(Draft* draft, int64_t node, int64_t* amounts) noexcept nogil
cdef bint pick(
    Draft* draft, Gangs* gangs, int64_t at, int64_t* need, bint consolidating, int64_t* take
) noexcept nogil
cdef BestFits best_fits(Draft* draft, Gangs* gangs, int64_t at, int64_t* best, int64_t* fair) noexcept nogil
cdef int64_t fewest_nodes(Draft* draft, Gangs* gangs, int64_t at, int64_t* need, int64_t* take) noexcept nogil
