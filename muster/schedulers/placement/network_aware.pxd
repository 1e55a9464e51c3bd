"""What the places of gangs are worth, for compiled code."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport Books
from muster.schedulers.placement.delay_scheduling cimport Workspace

# The forms of one gang's places, the fastest first; a kind of -1 ends the list.
cdef struct FormsOfGang:
    int64_t count
    int64_t* kinds  # kind, machines and racks of each
    double* speeds

cdef double share_on(Books* books, int64_t chain, FormsOfGang forms) noexcept nogil
cdef int64_t form_of_place(FormsOfGang forms, int64_t level, bint even, vector[int64_t]& racks) noexcept nogil
cdef int64_t form_on_machine(FormsOfGang forms, int64_t level) noexcept nogil
cdef bint find_form(
    Books* books,
    int64_t gpus,
    uint8_t* allowed,
    int64_t* kind,
    int64_t* need,
    int64_t* held_here,
    Workspace* work,
) noexcept nogil
