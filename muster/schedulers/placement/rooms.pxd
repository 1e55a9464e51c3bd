"""GPUs on the nodes of each constraint, for compiled code."""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books

# Where jobs of several constraints run, and how many GPUs are left for those that are counted there next.
cdef struct Rooms:
    uint8_t* node_allowed  # by constraint and node
    vector[int64_t] left  # by constraint, in millionths
    vector[vector[int64_t]] around  # by constraint: those whose nodes include its own, itself first

cdef void begin_rooms(Rooms* rooms, uint8_t* node_allowed, int64_t constraints, int64_t nodes) noexcept nogil
cdef void open_rooms(Rooms* rooms, Books* books, int64_t more) noexcept nogil
cdef int64_t free_on(Books* books, uint8_t* allowed) noexcept nogil
cdef int64_t held_on(Books* books, uint8_t* allowed, int64_t job) noexcept nogil
cdef void leave_rooms(Rooms* rooms, Books* books, int64_t job) noexcept nogil
cdef bint keep_rooms(Rooms* rooms, Books* books, int64_t job) noexcept nogil
cdef bint enter_rooms(Rooms* rooms, int64_t constraint, int64_t need) noexcept nogil
