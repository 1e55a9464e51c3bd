"""One node's CPU, memory and storage given to those of its jobs that gain most, for compiled code."""

from libc.stdint cimport int64_t

from muster.schedulers.allocation.draft_core cimport Draft
from muster.schedulers.allocation.gangs_core cimport Gangs
from muster.schedulers.placement.network_aware cimport FormsOfGang
from muster.speed.input_core cimport ModelSpeed

cdef void divide_all(Draft* draft, Gangs* gangs) noexcept nogil
cdef void divide_node(Draft* draft, Gangs* gangs, int64_t node) noexcept nogil
cdef bint meets_requests(Draft* draft, Gangs* gangs, int64_t node) noexcept nogil
cdef double gang_speed(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil
cdef double speed_on_form(ModelSpeed* model, FormsOfGang forms, int64_t number, double speed) noexcept nogil
cdef int64_t form_of(Draft* draft, Gangs* gangs, int64_t at, FormsOfGang forms) noexcept nogil
cdef void raise_gang(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil
