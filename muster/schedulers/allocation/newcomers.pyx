"""Placing waiting jobs beside running ones, each on the node where the speed of all gains most, compiled.

The jobs that are placed already keep their GPUs; what they hold beside them may be given out again.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, ints
from muster.schedulers.allocation.draft_core cimport (
    Draft,
    NodePart,
    draft_of,
    free_on,
    is_overdrawn,
    remove_last,
    tighter,
)
from muster.schedulers.allocation.fair_share_core cimport place_by_best_fit
from muster.schedulers.allocation.gangs_core cimport (
    Gangs,
    allowed_nodes,
    gangs_of,
    may_be_whole,
    need_of,
    place_whole,
    set_level,
)
from muster.schedulers.allocation.resource_fill cimport divide_all, divide_node, gang_speed
from muster.schedulers.allocation.search_core cimport best_fits

cdef double _EPSILON = 1e-9


# A draft as it was before a job was tried on a node.
cdef struct Before:
    NodePart* node_parts
    int64_t* free


def place_newcomers(draft, gangs, served, ranked):
    """Place the served jobs that have no place; those for which there is none leave their GPUs to others, by rank.

    Each node is then given to those of its jobs that gain most.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef Ints first = ints(served), others = ints(ranked)
    cdef vector[int64_t] take
    cdef int64_t i, at, left = 0
    take.resize(jobs.nodes)
    divide_all(&plan, &jobs)
    for i in range(first.size):
        at = first.at[i]
        if plan.movable[at] and plan.first[at] < 0 and not _place(&plan, &jobs, at, take.data()):
            left += jobs.gpus[at]
    for i in range(others.size):
        at = others.at[i]
        if plan.movable[at] and plan.first[at] < 0 and jobs.gpus[at] <= left:
            if _place(&plan, &jobs, at, take.data()):
                left -= jobs.gpus[at]


cdef bint _place(Draft* draft, Gangs* gangs, int64_t at, int64_t* take) noexcept nogil:
    """Place a job on the best node, or on as few as possible; returns whether it has a place.

    Where nodes are alike, one with room for all of the job's demand is as good as can be: best fit chooses it.
    """
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef int64_t node = -1, number
    if gangs.kind_count == 1:
        node = best_fits(draft, gangs, at, best, best).with_best
    if node >= 0:
        place_whole(draft, gangs, at, node, best)
        return True
    node = _most_gain(draft, gangs, at)
    if node >= 0:
        _add(draft, gangs, at, node)
        return True
    if not place_by_best_fit(draft, gangs, at, take):
        return False
    number = draft.first[at]
    while number >= 0:
        divide_node(draft, gangs, draft.node_parts[number].node)
        number = draft.node_parts[number].next
    return True


cdef int64_t _most_gain(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil:
    """The node for the whole job with the most speed gained in all, of equals the fullest; -1: none."""
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef vector[NodePart] node_parts
    cdef vector[int64_t] free
    cdef Before before
    cdef int64_t node, best = -1
    cdef double speed, gain, most = -INFINITY
    cdef bint alike
    node_parts.assign(draft.node_parts, draft.node_parts + draft.used[0])
    free.assign(draft.free, draft.free + draft.nodes * draft.resources)
    before.node_parts, before.free = node_parts.data(), free.data()
    for node in range(gangs.nodes if may_be_whole(gangs, at) else 0):
        if free_on(draft, node)[0] < gangs.gpus[at] or not allowed[node]:
            continue
        speed = _speed_on(draft, gangs, node)
        if _add(draft, gangs, at, node):
            gain = _speed_on(draft, gangs, node) - speed
            alike = fabs(gain - most) <= _EPSILON
            if (alike and tighter(draft, node, best, -1)) or (not alike and gain > most):
                best, most = node, gain
        remove_last(draft)
        _restore(draft, node, before)
    return best


cdef void _restore(Draft* draft, int64_t node, Before before) noexcept nogil:
    """Give the jobs of a node, on all their nodes, what they had before a job was tried there."""
    cdef int64_t here = draft.first_here[node], number, place
    cdef NodePart* part
    memcpy(free_on(draft, node), before.free + node * draft.resources, draft.resources * sizeof(int64_t))
    while here >= 0:
        number = draft.first[draft.node_parts[here].at]
        while number >= 0:
            part = &draft.node_parts[number]
            memcpy(part.amount, before.node_parts[number].amount, sizeof(part.amount))
            place = part.node * draft.resources
            memcpy(draft.free + place, before.free + place, draft.resources * sizeof(int64_t))
            number = part.next
        here = draft.node_parts[here].next_here


cdef bint _add(Draft* draft, Gangs* gangs, int64_t at, int64_t node) noexcept nogil:
    """Put a job on a node and share the node out again; returns whether all have their fair share there.

    Gangs on several nodes are lowered to their fair share only where there is no room otherwise.
    """
    cdef int64_t number, other
    place_whole(draft, gangs, at, node, need_of(gangs, gangs.demands.fair, at))
    divide_node(draft, gangs, node)
    if is_overdrawn(draft, node):
        number = draft.first_here[node]
        while number >= 0:
            other = draft.node_parts[number].at
            if draft.node_parts[draft.first[other]].next >= 0:
                set_level(draft, gangs, other, need_of(gangs, gangs.demands.fair, other))
            number = draft.node_parts[number].next_here
        divide_node(draft, gangs, node)
    return not is_overdrawn(draft, node)


cdef double _speed_on(Draft* draft, Gangs* gangs, int64_t node) noexcept nogil:
    """GPUs times speed of all jobs that have GPUs of this node."""
    cdef double total = 0.0
    cdef int64_t number = draft.first_here[node], at
    while number >= 0:
        at = draft.node_parts[number].at
        total += gangs.gpus[at] * gang_speed(draft, gangs, at)
        number = draft.node_parts[number].next_here
    return total
