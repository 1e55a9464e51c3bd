"""Gangs that share uplinks, for compiled code."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

# A value that a speed is at least, with some probability.
cdef struct Level:
    double speed
    double reached

# A link that a gang crosses.
cdef struct OnLink:
    int64_t link
    double use
    double pressure

cdef class Neighbourhood:
    cdef int64_t gangs
    cdef int64_t stamp
    cdef vector[int64_t] first
    cdef vector[int64_t] links
    cdef vector[double] uses
    cdef vector[double] capacity
    cdef vector[double] busy
    cdef vector[double] pressure  # part of a link that is used in the mean
    cdef vector[int64_t] link_first
    cdef vector[int64_t] gang_at
    cdef vector[double] use_at
    cdef vector[int64_t] met

    cdef void set_busy(self, double* busy) noexcept nogil
    cdef double speed(self, int64_t gang) noexcept nogil
    cdef void _add_link(self, int64_t gang, OnLink* here, vector[vector[Level]]& distributions) noexcept nogil
