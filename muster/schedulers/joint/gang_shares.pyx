"""CPU, memory and storage shared between gangs on several nodes and the jobs beside them, compiled.

`resource_fill` gives out a node to the jobs that it holds alone, and a gang gets what these leave. Here each gang is
given each of its choices, its nodes are given out again beside it, and what makes most progress stays.
"""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport SLOTS
from muster.schedulers.allocation.draft_core cimport (
    Draft,
    NodePart,
    alone,
    draft_of,
    is_overdrawn,
    per_gpu,
    set_amounts,
)
from muster.schedulers.allocation.gangs_core cimport Gangs, choice_of, gangs_of, need_of, need_on
from muster.schedulers.allocation.resource_fill cimport divide_node, gang_speed

cdef double _EPSILON = 1e-9


def share_with_gangs(draft, gangs):
    """Give each gang on several nodes of one kind, by position, the choice with which all jobs there do most.

    That is the sum of their speeds, each times its weight. The other jobs get less where that gains, or what a gang
    that gets less leaves to them.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef int64_t at
    for at in range(jobs.jobs):
        if plan.first[at] >= 0 and plan.node_parts[plan.first[at]].next >= 0:
            _share(&plan, &jobs, at)


cdef void _share(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil:
    """Give a gang the choice with which the jobs of its nodes do most."""
    cdef vector[int64_t] parts, amounts
    cdef int64_t kind = gangs.kind_of_node[draft.node_parts[draft.first[at]].node]
    cdef int64_t pair = gangs.classes[at] * gangs.kind_count + kind, then
    cdef int64_t first = gangs.demands.first_choice[pair], last = gangs.demands.first_choice[pair + 1]
    cdef double now = gang_speed(draft, gangs, at), most, worth, others, speed
    if last - first == 1 or not _parts_beside(draft, gangs, at, kind, parts):
        return
    _copy_amounts(draft, parts, amounts)
    most, others = _worth_of(draft, gangs, parts), _most_of_others(draft, gangs, at, kind, parts)
    for then in range(first, last):
        speed = gangs.demands.choice_speed[then]
        if others + gangs.weight[at] * speed <= most + _EPSILON or abs(speed - now) <= _EPSILON:
            continue
        if _try_choice(draft, gangs, at, parts, choice_of(gangs, then)):
            worth = _worth_of(draft, gangs, parts)
            if worth > most + _EPSILON:
                most = worth
                _copy_amounts(draft, parts, amounts)
    _set_all(draft, parts, amounts)


cdef bint _parts_beside(Draft* draft, Gangs* gangs, int64_t at, int64_t kind, vector[int64_t]& parts) noexcept nogil:
    """The parts of a gang, then those of whole jobs on its nodes; whether there are any and all nodes are of a kind."""
    cdef int64_t number = draft.first[at], own, i, other
    while number >= 0:
        if gangs.kind_of_node[draft.node_parts[number].node] != kind:
            return False
        parts.push_back(number)
        number = draft.node_parts[number].next
    own = parts.size()
    for i in range(own):
        other = draft.first_here[draft.node_parts[parts[i]].node]
        while other >= 0:
            if alone(draft, other):
                parts.push_back(other)
            other = draft.node_parts[other].next_here
    return <int64_t> parts.size() > own


cdef bint _try_choice(
    Draft* draft, Gangs* gangs, int64_t at, vector[int64_t]& parts, int64_t* amounts
) noexcept nogil:
    """Give a gang these amounts and the other jobs of its nodes what is left; whether there is room."""
    cdef size_t i
    cdef NodePart* part
    for i in range(parts.size()):
        part = &draft.node_parts[parts[i]]
        if part.at == at:
            set_amounts(draft, parts[i], amounts)
        else:
            set_amounts(draft, parts[i], need_on(gangs, need_of(gangs, gangs.demands.fair, part.at), part.node))
    for i in range(parts.size()):
        part = &draft.node_parts[parts[i]]
        if part.at != at:
            break
        if is_overdrawn(draft, part.node):
            return False
        divide_node(draft, gangs, part.node)
    return True


cdef double _worth_of(Draft* draft, Gangs* gangs, vector[int64_t]& parts) noexcept nogil:
    """The speed of the jobs of these parts, each times its weight; the parts of one job follow each other."""
    cdef double worth = 0.0
    cdef int64_t at, before = -1
    cdef size_t i
    for i in range(parts.size()):
        at = draft.node_parts[parts[i]].at
        if at != before:
            worth += gangs.weight[at] * gang_speed(draft, gangs, at)
        before = at
    return worth


cdef double _most_of_others(
    Draft* draft, Gangs* gangs, int64_t at, int64_t kind, vector[int64_t]& parts
) noexcept nogil:
    """What `_worth_of` would be of all but one job if each had its best speed."""
    cdef double worth = 0.0
    cdef int64_t other, last
    cdef size_t i
    for i in range(parts.size()):
        other = draft.node_parts[parts[i]].at
        if other != at:
            last = gangs.demands.first_choice[gangs.classes[other] * gangs.kind_count + kind + 1] - 1
            worth += gangs.weight[other] * gangs.demands.choice_speed[last]
    return worth


cdef void _copy_amounts(Draft* draft, vector[int64_t]& parts, vector[int64_t]& amounts) noexcept nogil:
    """What these parts have beside each GPU, by part and resource."""
    cdef size_t i
    amounts.resize(parts.size() * SLOTS)
    for i in range(parts.size()):
        per_gpu(draft, parts[i], amounts.data() + i * SLOTS)


cdef void _set_all(Draft* draft, vector[int64_t]& parts, vector[int64_t]& amounts) noexcept nogil:
    """Give these parts what was copied."""
    cdef size_t i
    for i in range(parts.size()):
        set_amounts(draft, parts[i], amounts.data() + i * SLOTS)
