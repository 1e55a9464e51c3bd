"""Exchanging jobs of two nodes where that raises the speed of both together, compiled."""

from libc.stdint cimport int64_t, uint8_t
from libcpp.algorithm cimport stable_sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, ints
from muster.cluster.ledger_core cimport SLOTS
from muster.schedulers.allocation.draft_core cimport (
    Draft,
    alone,
    draft_of,
    per_gpu,
    set_amounts,
)
from muster.schedulers.allocation.gangs_core cimport Gangs, allowed_nodes, gangs_of, model_on
from muster.schedulers.allocation.resource_fill cimport divide_node, gang_speed, meets_requests
from muster.speed.points_core cimport speed_at

cdef int64_t _PARTNERS = 3  # nodes tried for a job before it is given up

ctypedef pair[double, int64_t] Lack


# What the jobs lack: by job what is missing and what it wants, by node what is missing.
cdef struct Lacks:
    double* missing
    double* hunger
    double* pressure


cdef bint _more(const Lack& one, const Lack& other) noexcept nogil:
    return one.first > other.first


def swap_jobs(draft, gangs, served, wanted, of_kind, int64_t tries):
    """Exchange jobs that lack most of what they want with less demanding ones, on nodes where least is missing."""
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef Ints order = ints(served), wants = ints(wanted), kinds = ints(of_kind)
    cdef vector[double] missing, hunger, pressure
    cdef vector[Lack] worst
    cdef Lacks lacks
    cdef int64_t i, at, number
    cdef size_t place
    cdef double full
    missing.assign(jobs.jobs, 0.0)
    hunger.assign(jobs.jobs, 0.0)
    pressure.assign(plan.nodes, 0.0)
    for i in range(order.size):
        at = order.at[i]
        hunger[at] = jobs.gpus[at] * wants.at[i * plan.resources + 1]
        if plan.first[at] >= 0:
            full = speed_at(model_on(&jobs, at, kinds.at[i]), wants.at + i * plan.resources)
            missing[at] = jobs.gpus[at] * (full - gang_speed(&plan, &jobs, at))
    for number in range(plan.used[0]):
        pressure[plan.node_parts[number].node] += missing[plan.node_parts[number].at]
    for i in range(order.size):
        worst.push_back(Lack(missing[order.at[i]], order.at[i]))
    stable_sort(worst.begin(), worst.end(), _more)
    lacks.missing, lacks.hunger, lacks.pressure = missing.data(), hunger.data(), pressure.data()
    for place in range(worst.size()):
        at = worst[place].second
        if tries <= 0 or missing[at] <= 1e-6:
            return
        if _may_move(&plan, at):
            tries -= _swap_one(&plan, &jobs, at, lacks)


cdef int64_t _swap_one(Draft* draft, Gangs* gangs, int64_t at, Lacks lacks) noexcept nogil:
    """Try to exchange a job with one on another node; how many were tried."""
    cdef vector[uint8_t] tried
    cdef vector[int64_t] saved_here, saved_there
    cdef int64_t here = draft.node_parts[draft.first[at]].node, there, partner, tries = 0
    cdef double speed_here = _speed_on(draft, gangs, here), before, gain
    tried.assign(draft.nodes, False)
    tried[here] = True
    while tries < _PARTNERS:
        partner = _partner(draft, gangs, at, lacks, tried.data())
        if partner < 0:
            break
        tries += 1
        there = draft.node_parts[draft.first[partner]].node
        before = speed_here + _speed_on(draft, gangs, there)
        _save(draft, here, saved_here)
        _save(draft, there, saved_there)
        _swap(draft, at, partner)
        divide_node(draft, gangs, here)
        divide_node(draft, gangs, there)
        gain = _speed_on(draft, gangs, here) + _speed_on(draft, gangs, there) - before
        if gain > 1e-9 and meets_requests(draft, gangs, here) and meets_requests(draft, gangs, there):
            # What was missing in both together has become less; the larger part of it moved.
            lacks.pressure[there] += max(lacks.missing[at] - gain, 0.0)
            lacks.pressure[here] -= lacks.missing[at]
            break
        _swap(draft, at, partner)
        _restore(draft, here, saved_here)
        _restore(draft, there, saved_there)
    return tries


cdef bint _may_move(Draft* draft, int64_t at) noexcept nogil:
    """Whether a job may be moved and has all its GPUs on one node."""
    return draft.first[at] >= 0 and draft.movable[at] and draft.node_parts[draft.first[at]].next < 0


cdef int64_t _partner(Draft* draft, Gangs* gangs, int64_t at, Lacks lacks, uint8_t* tried) noexcept nogil:
    """The least demanding job of as many GPUs on the untried node where least is missing; -1: none."""
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef int64_t node = draft.node_parts[draft.first[at]].node, there, other, best, number
    while True:
        there = -1
        for other in range(draft.nodes):
            if not tried[other] and allowed[other]:
                if there < 0 or lacks.pressure[other] < lacks.pressure[there]:
                    there = other
        if there < 0:
            return -1
        tried[there] = True
        best = -1
        number = draft.first_here[there]
        while number >= 0:
            other = draft.node_parts[number].at
            if gangs.gpus[other] == gangs.gpus[at] and lacks.hunger[other] < lacks.hunger[at]:
                if _may_move(draft, other) and allowed_nodes(gangs, other)[node]:
                    if best < 0 or lacks.hunger[other] < lacks.hunger[best]:
                        best = other
            number = draft.node_parts[number].next_here
        if best >= 0:
            return best


cdef void _swap(Draft* draft, int64_t one, int64_t other) noexcept nogil:
    cdef int64_t a = draft.first[one], b = draft.first[other]
    draft.node_parts[a].at, draft.node_parts[b].at = other, one
    draft.first[one], draft.first[other] = b, a


cdef double _speed_on(Draft* draft, Gangs* gangs, int64_t node) noexcept nogil:
    """GPUs times speed of the jobs that have all their GPUs on this node."""
    cdef double total = 0.0
    cdef int64_t number = draft.first_here[node], at
    while number >= 0:
        if alone(draft, number):
            at = draft.node_parts[number].at
            total += gangs.gpus[at] * gang_speed(draft, gangs, at)
        number = draft.node_parts[number].next_here
    return total


cdef void _save(Draft* draft, int64_t node, vector[int64_t]& saved) noexcept nogil:
    """Write what the node parts of a node have beside each GPU."""
    cdef int64_t number = draft.first_here[node], place = 0
    while number >= 0:
        saved.resize((place + 1) * SLOTS)
        per_gpu(draft, number, saved.data() + place * SLOTS)
        number = draft.node_parts[number].next_here
        place += 1


cdef void _restore(Draft* draft, int64_t node, vector[int64_t]& saved) noexcept nogil:
    """Give the node parts of a node what was written."""
    cdef int64_t number = draft.first_here[node], place = 0
    while number >= 0:
        set_amounts(draft, number, saved.data() + place * SLOTS)
        number = draft.node_parts[number].next_here
        place += 1
