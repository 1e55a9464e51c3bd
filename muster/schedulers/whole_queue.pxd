"""The compiled form of a composed scheduler with quotas or a bound on waiting."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Floats
from muster.schedulers.composed_core cimport CompiledScheduler, Ranked, WorldView
from muster.schedulers.placement.rooms cimport Rooms

cdef class WholeQueueScheduler(CompiledScheduler):
    cdef bint _has_quota, _weighted
    cdef Floats _limits, _guaranteed, _weights  # by tenant
    cdef double _promote_after
    cdef bint _promote_for_good
    cdef vector[int64_t] _promoted  # ascending
    # Of one decision.
    cdef vector[Ranked] _by_key  # the candidates in the order's own order
    cdef vector[int64_t] _order  # the jobs that are served, as they are served
    cdef vector[uint8_t] _is_urgent  # by job: it was promoted before, and others make room for it
    cdef vector[uint8_t] _ran  # by job: it held something when the decision began
    cdef vector[uint8_t] _would_run  # by job: it would be chosen if no job were protected
    cdef Rooms _rooms
    cdef vector[int64_t] _excluded  # jobs over the limits of their tenants
    cdef vector[uint8_t] _is_passed  # by job: it has no place, and its GPUs count in vain for its tenant
    cdef bint _some_newly
    cdef int64_t _mark  # entries of the journal before the first job is served

    cdef void _set_reason(self, int64_t job, int64_t code) noexcept nogil
    cdef void _promote(self, WorldView* world, double now) noexcept nogil
    cdef void _put_promoted_first(self, WorldView* world) noexcept nogil
    cdef void _serve_admitted(self, WorldView* world, double now) noexcept nogil
    cdef void _admit(self, WorldView* world, double now) noexcept nogil
    cdef double _demand(self, WorldView* world, int64_t job) noexcept nogil
    cdef bint _pass_counted_in_vain(self, WorldView* world) noexcept nogil
    cdef void _choose(self, WorldView* world, double pinned_after) noexcept nogil
    cdef void _serve_in_order(self, WorldView* world, vector[int64_t]& order) noexcept nogil
    cdef void _serve_job(self, WorldView* world, int64_t job, int64_t turn, bint releasing) noexcept nogil
    cdef void _make_room(self, WorldView* world, double now) noexcept nogil
    cdef void _find_unprotected(self, WorldView* world, double now) noexcept nogil
    cdef void _name_protected(self, WorldView* world) noexcept nogil
    cdef void _note_all(self, WorldView* world) noexcept nogil
    cdef void _promise_turns(self, WorldView* world, double now) noexcept nogil
    cdef bint _is_unplaced(self, int64_t job) noexcept nogil
