"""What is left on the nodes of each constraint, for compiled code."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books

# What is left of some resources for the jobs that are counted next. Amounts are in millionths.
cdef struct Rooms:
    uint8_t* node_allowed  # by constraint and node
    int64_t constraints
    int64_t resources
    vector[int64_t] left  # by constraint and resource
    vector[vector[int64_t]] around  # by constraint: those whose nodes include its own, itself first

cdef void begin_rooms(
    Rooms* rooms, uint8_t* node_allowed, int64_t constraints, int64_t nodes, int64_t resources
) noexcept nogil
cdef void count_free(Rooms* rooms, Books* books, int64_t more) noexcept nogil
cdef void count_held(Rooms* rooms, Books* books, int64_t job) noexcept nogil
cdef void count_where_it_is(Rooms* rooms, Books* books, int64_t job, int64_t* need, int64_t times) noexcept nogil
cdef bint keep_rooms(Rooms* rooms, Books* books, int64_t job, int64_t* need) noexcept nogil
cdef bint enter_rooms(Rooms* rooms, int64_t constraint, int64_t* need) noexcept nogil
cdef int64_t gpus_held(Books* books, int64_t job) noexcept nogil
cdef int64_t free_on(Books* books, uint8_t* allowed) noexcept nogil
cdef int64_t held_on(Books* books, uint8_t* allowed, int64_t job) noexcept nogil
