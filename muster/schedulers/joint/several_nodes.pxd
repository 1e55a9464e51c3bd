"""Gangs over several nodes, for compiled code."""

from libc.stdint cimport int64_t

from muster.schedulers.joint.search cimport Search

cdef bint place_apart(Search* search, int64_t at) noexcept nogil
cdef int64_t place_on_fewest(Search* search, int64_t at) noexcept nogil
cdef void place_on_chosen(Search* search, int64_t at, int64_t* need) noexcept nogil
cdef bint join_nodes(Search* search, int64_t at) noexcept nogil
