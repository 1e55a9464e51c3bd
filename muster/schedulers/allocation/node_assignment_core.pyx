"""Assigning jobs to nodes so that the most demanding ones do not meet, compiled; see `node_assignment`."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Floats, Ints, floats, ints
from muster.cluster.ledger_core cimport SLOTS
from muster.schedulers.allocation.draft_core cimport (
    Draft,
    NodePart,
    draft_of,
    fits,
    floor_of,
    free_on,
    set_amounts,
)
from muster.schedulers.allocation.gangs_core cimport (
    Gangs,
    allowed_nodes,
    amount_per_gpu,
    gangs_of,
    may_be_whole,
    need_of,
    need_on,
    place_gang,
    place_whole,
    request_of,
)
from muster.schedulers.allocation.search_core cimport fewest_nodes

import numpy as np


def share_out(draft, gangs):
    """Give each node part its request, then the fair share, or as much of it as is left."""
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef int64_t number, resource, most
    cdef int64_t need[SLOTS]
    cdef int64_t* fair
    cdef NodePart* part
    for number in range(plan.used[0]):
        set_amounts(&plan, number, request_of(&jobs, plan.node_parts[number].at))
    for number in range(plan.used[0]):
        part = &plan.node_parts[number]
        fair = need_on(&jobs, need_of(&jobs, jobs.demands.fair, part.at), part.node)
        for resource in range(1, plan.resources):
            most = part.amount[resource] + free_on(&plan, part.node)[resource]
            need[resource] = min(fair[resource], floor_of(most, part.gpus))
        set_amounts(&plan, number, need)


def deviations(gangs, of_kind, served, wanted):
    """How much more or less than an average GPU of its kind each job's GPU wants: by place, in shares."""
    cdef Gangs jobs = gangs_of(gangs)
    cdef Ints kinds = ints(of_kind), order = ints(served), wants = ints(wanted)
    cdef int64_t width = jobs.resources, i, kind, resource
    cdef int64_t share[SLOTS]
    cdef vector[double] average, gpus
    cdef double part
    apart = np.zeros((order.size, width))
    cdef double* deviation = floats(apart).at
    average.assign(jobs.kind_count * width, 0.0)
    gpus.assign(jobs.kind_count, 0.0)
    for i in range(order.size):
        gpus[kinds.at[i]] += jobs.gpus[order.at[i]]
    for i in range(order.size):
        kind = kinds.at[i]
        for resource in range(1, width):
            part = jobs.gpus[order.at[i]] / gpus[kind]
            average[kind * width + resource] += wants.at[i * width + resource] * part
    for i in range(order.size):
        kind = kinds.at[i]
        amount_per_gpu(&jobs, kind, share)
        for resource in range(1, width):
            deviation[i * width + resource] = (
                wants.at[i * width + resource] - average[kind * width + resource]
            ) / share[resource]
    return apart


def assign(draft, gangs, served, of_kind, apart):
    """Place the served jobs with their fair share: those that want more than the average where others want less.

    `served` begins with the largest gangs and the strongest deviations. A gang that no node holds goes to as few as
    possible. Jobs that are placed already stay, and what they want counts.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    _assign(&plan, &jobs, ints(served), ints(of_kind), floats(apart))


cdef void _assign(Draft* draft, Gangs* gangs, Ints served, Ints of_kind, Floats apart) noexcept nogil:
    cdef vector[double] surplus
    cdef vector[int64_t] take
    cdef int64_t i, at, best, node, number, width = gangs.resources
    cdef int64_t* fair
    cdef double* deviation
    surplus.assign(gangs.nodes * width, 0.0)
    take.resize(gangs.nodes)
    for i in range(served.size):
        number = draft.first[served.at[i]]
        while number >= 0:
            node = draft.node_parts[number].node
            _lower(surplus.data() + node * width, draft.node_parts[number].gpus, apart.at + i * width, width)
            number = draft.node_parts[number].next
    for i in range(served.size):
        at, deviation = served.at[i], apart.at + i * width
        if not draft.movable[at] or draft.first[at] >= 0:
            continue
        fair = need_of(gangs, gangs.demands.fair, at)
        best = _best_match(draft, gangs, at, of_kind.at[i], deviation, surplus.data())
        if best >= 0:
            place_whole(draft, gangs, at, best, fair)
            _lower(surplus.data() + best * width, gangs.gpus[at], deviation, width)
        elif fewest_nodes(draft, gangs, at, fair, take.data()) > 0:
            place_gang(draft, gangs, at, fair, take.data())
            for node in range(gangs.nodes):
                _lower(surplus.data() + node * width, take[node], deviation, width)


cdef void _lower(double* surplus, int64_t gpus, double* deviation, int64_t resources) noexcept nogil:
    """A job with so many GPUs takes what it wants from a node's surplus."""
    cdef int64_t resource
    for resource in range(resources):
        surplus[resource] -= gpus * deviation[resource]


cdef int64_t _best_match(
    Draft* draft, Gangs* gangs, int64_t at, int64_t kind, double* apart, double* surplus
) noexcept nogil:
    """The node with room for the whole job whose other jobs want least of what it wants; -1: none.

    A node of the kind goes before all others.
    """
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    cdef int64_t node, resource, best = -1
    cdef double match, most = -INFINITY
    cdef bint suits, best_suits = False
    for node in range(gangs.nodes if may_be_whole(gangs, at) else 0):
        suits = gangs.kind_of_node[node] == kind
        if not allowed[node] or free_on(draft, node)[0] < gangs.gpus[at] or (best_suits and not suits):
            continue
        match = 0.0
        for resource in range(1, gangs.resources):
            match += surplus[node * gangs.resources + resource] * apart[resource]
        if match > most + 1e-12 or (suits and not best_suits):
            if fits(draft, node, gangs.gpus[at], need_on(gangs, fair, node)):
                best, most, best_suits = node, match, suits
    return best
