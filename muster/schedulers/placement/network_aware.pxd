"""What the places of gangs are worth, for compiled code."""

from libc.stdint cimport int64_t

from muster.cluster.ledger_core cimport Books

# The forms of one gang's places, the fastest first; a kind of -1 ends the list.
cdef struct FormsOfGang:
    int64_t count
    int64_t* kinds  # kind, machines and racks of each
    double* speeds

cdef double share_on(Books* books, int64_t chain, FormsOfGang forms) noexcept nogil
