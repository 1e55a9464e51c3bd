"""Steps 2 to 5 of Synergy's tune, compiled; see `tune`."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, ints
from muster.cluster.ledger_core cimport SLOTS
from muster.schedulers.allocation.draft_core cimport Draft, draft_of, per_gpu, set_amounts
from muster.schedulers.allocation.fair_share_core cimport place_by_best_fit, take_fair_share
from muster.schedulers.allocation.gangs_core cimport (
    Gangs,
    gangs_of,
    has_room,
    need_of,
    request_of,
    set_level,
)
from muster.schedulers.allocation.resource_fill cimport divide_all, gang_speed, raise_gang


def tune(draft, gangs, served, ranked):
    """Steps 2 to 5 for the served; those of them without a place leave their GPUs to others, by rank.

    Fixed jobs begin with what they hold (`keep_amounts`). With any of them, each node is given in the end to those of
    its jobs that gain most: jobs that met by chance and cannot part need not starve each other.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    _tune(&plan, &jobs, ints(served), ints(ranked))


cdef void _tune(Draft* draft, Gangs* gangs, Ints served, Ints ranked) noexcept nogil:
    cdef vector[int64_t] take
    cdef int64_t i, at, left = 0
    cdef bint some_fixed = False
    take.resize(gangs.nodes)
    for i in range(served.size):
        if draft.fixed[served.at[i]]:
            some_fixed = True
            _lower_to_fair(draft, gangs, served.at[i])
    for i in range(served.size):
        at = served.at[i]
        if draft.fixed[at]:
            _raise_fixed(draft, gangs, at)
        elif not place_by_best_fit(draft, gangs, at, take.data()):
            left += gangs.gpus[at]
    for i in range(ranked.size):
        at = ranked.at[i]
        if draft.movable[at] and draft.first[at] < 0 and gangs.gpus[at] <= left:
            if place_by_best_fit(draft, gangs, at, take.data()):
                left -= gangs.gpus[at]
    if some_fixed:
        divide_all(draft, gangs)
        for i in range(served.size):
            raise_gang(draft, gangs, served.at[i])


cdef void _lower_to_fair(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil:
    """Take what a job holds beyond its fair share and has no use for."""
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    if not _is_above_fair(draft, gangs, at) and has_room(draft, gangs, at, fair):
        set_level(draft, gangs, at, fair)


cdef void _raise_fixed(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil:
    """Give a job that keeps its GPUs its demand where it fits, else what it holds, and the fair share at least.

    The fair share is taken back from neighbours if need be.
    """
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef vector[int64_t] kept
    cdef int64_t number, place = 0
    if has_room(draft, gangs, at, best):
        set_level(draft, gangs, at, best)
        return
    if _is_above_fair(draft, gangs, at):
        return
    number = draft.first[at]
    while number >= 0:
        kept.resize((place + 1) * SLOTS)
        per_gpu(draft, number, kept.data() + place * SLOTS)
        set_amounts(draft, number, request_of(gangs, at))
        number, place = draft.node_parts[number].next, place + 1
    if take_fair_share(draft, gangs, at):
        return
    number, place = draft.first[at], 0
    while number >= 0:
        set_amounts(draft, number, kept.data() + place * SLOTS)
        number, place = draft.node_parts[number].next, place + 1


cdef bint _is_above_fair(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil:
    """Whether a job is faster on what it has than with its fair share."""
    cdef double fair_speed = INFINITY
    cdef int64_t number = draft.first[at], kind
    while number >= 0:
        kind = gangs.kind_of_node[draft.node_parts[number].node]
        fair_speed = min(fair_speed, gangs.demands.fair_speed[gangs.classes[at] * gangs.kind_count + kind])
        number = draft.node_parts[number].next
    return gang_speed(draft, gangs, at) > fair_speed * (1 + 1e-9)
