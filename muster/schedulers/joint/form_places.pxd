"""Places on a network by their form, for compiled code."""

from libc.stdint cimport int64_t

from muster.schedulers.joint.search cimport Search

cdef void count_held(Search* search) noexcept nogil
cdef void count_free(Search* search, int64_t node) noexcept nogil
cdef bint may_share_machine(Search* search, int64_t at) noexcept nogil
cdef bint place_on_form(Search* search, int64_t at, bint only_fastest) noexcept nogil
cdef bint join_on_form(Search* search, int64_t at) noexcept nogil
