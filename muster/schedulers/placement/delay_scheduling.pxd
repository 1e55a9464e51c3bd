"""Places by level of the tree, for compiled code."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books
from muster.schedulers.placement.rules_core cimport Scratch
from muster.workload.jobs_core cimport Asked

cpdef enum:
    # Levels of a placement, best first.
    NOWHERE = -1
    ISLAND = 0
    MACHINE = 1
    RACK = 2
    NETWORK = 3

cdef enum:
    SPLIT = 1 << 20  # more free GPUs than an island has: the gang fits in none

# Arrays in which a place for one gang is worked out.
cdef struct Workspace:
    Scratch scratch
    int64_t* racks  # by rack: the GPUs that fit
    int64_t* room  # by node
    uint8_t* inside  # by node
    int64_t rack_count

cdef class Competitors:
    cdef object _kept  # arrays whose memory is used here
    cdef double* since
    cdef double* machine_seconds
    cdef double* rack_seconds
    cdef uint8_t* urgent
    cdef int64_t* released
    cdef uint8_t* content

cdef class LeaseTerms:
    cdef double now, lease_seconds, pause_seconds
    cdef bint published

cdef Workspace workspace_for(Books* books, vector[int64_t]& numbers, vector[uint8_t]& inside) noexcept nogil
cdef int64_t level_of_chain(Books* books, int64_t chain) noexcept nogil
cdef int64_t smallest_island(Books* books, int64_t node, int64_t gpus) noexcept nogil
cdef void count_by_rack(Books* books, uint8_t* allowed, int64_t* need, int64_t* fit, Workspace* work) noexcept nogil
cdef int64_t best_rack(Books* books, int64_t* fit, Workspace* work, int64_t gpus, bint published) noexcept nogil
cdef bint place_in_rack(
    Books* books, int64_t job, Asked* asked, uint8_t* allowed, int64_t* need, int64_t rack, Workspace* work
) noexcept nogil
cdef bint place_in_racks(
    Books* books, int64_t job, int64_t gpus, uint8_t* allowed, int64_t* need, Workspace* work
) noexcept nogil
cdef bint find_in_rack(
    Books* books, int64_t gpus, uint8_t* allowed, int64_t* need, int64_t rack, Workspace* work
) noexcept nogil
cdef int64_t find_in_next_rack(
    Books* books, int64_t gpus, uint8_t* allowed, int64_t* need, Workspace* work
) noexcept nogil
