"""The order in which the program of Dally's authors tries islands and machines, for compiled code."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books

# GPUs of a node from one on: an island, or the whole machine.
cdef struct Place:
    int64_t node
    int64_t first

cdef void list_places(Books* books, uint8_t* allowed, bint by_island, vector[Place]& ordered) noexcept nogil
cdef void list_nodes_by_rack(Books* books, vector[int64_t]& nodes) noexcept nogil
