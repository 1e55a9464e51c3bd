"""Even gangs, where the engine gives a job the same amounts on each of its nodes, for compiled code."""

from libc.stdint cimport int64_t

from muster.cluster.ledger_core cimport Books

cdef enum:
    EVEN_GANGS = 4  # its place in `totals` after the resources
    UNFIT_EVEN = -5

# Which of the nodes that have room for its part a gang takes.
cdef enum EvenChoice:
    FULLEST
    EMPTIEST
    FIRST


cdef inline bint even_gangs(Books* books) noexcept nogil:
    """Whether a job has the same amounts on each of its nodes."""
    return books.totals[books.resources + EVEN_GANGS] != 0


cdef int64_t even_part(int64_t* fit, int64_t nodes, int64_t gpus, bint smallest) noexcept nogil
cdef int64_t take_even(int64_t* fit, int64_t nodes, int64_t gpus, EvenChoice choice, int64_t* take) noexcept nogil
cdef int64_t take_exactly(
    int64_t* fit, int64_t nodes, int64_t gpus, int64_t count, bint even, int64_t* take
) noexcept nogil
cdef bint level_chain(Books* books, int64_t chain) noexcept nogil
