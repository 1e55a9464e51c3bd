"""Placing jobs with their fair share at least, for compiled code."""

from libc.stdint cimport int64_t

from muster.schedulers.allocation.draft_core cimport Draft
from muster.schedulers.allocation.gangs_core cimport Gangs

cdef bint place_by_best_fit(Draft* draft, Gangs* gangs, int64_t at, int64_t* take) noexcept nogil
cdef bint take_fair_share(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil
