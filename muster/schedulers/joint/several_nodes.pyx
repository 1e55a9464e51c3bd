"""Gangs on as few nodes as hold them, where the jobs there make room if all gain from it, compiled."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport SLOTS
from muster.schedulers.allocation.draft_core cimport (
    Draft,
    add_part,
    alone,
    fits,
    per_gpu,
    remove_job,
    set_amounts,
)
from muster.schedulers.allocation.gangs_core cimport Gangs, need_of, need_on, next_speed
from muster.schedulers.allocation.resource_fill cimport divide_node, raise_gang
from muster.schedulers.joint.free_nodes cimport Chosen, fewest_nodes
from muster.schedulers.joint.node_gains cimport counted_speed
from muster.schedulers.joint.search cimport Search

cdef double _EPSILON = 1e-9


cdef bint place_apart(Search* search, int64_t at) noexcept nogil:
    """Place a job on as few nodes as have its GPUs, else on as few as have what it needs; whether it has a place.

    With `fast_first` before that on nodes of the kinds that make it fastest, if they have its whole demand.
    """
    cdef Gangs* gangs = search.gangs
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    if search.fast_first and gangs.exact_nodes[at] == 0 and _place_where_fast(search, at):
        return True
    if not search.apart_first and place_on_fewest(search, at):
        return True
    if _choose_fewest(search, at, NULL) == 0:
        return False
    if join_nodes(search, at):
        return True
    if _choose_fewest(search, at, best) > 0:
        place_on_chosen(search, at, best)
        return True
    return _choose_fewest(search, at, fair) > 0 and join_nodes(search, at)


cdef bint _place_where_fast(Search* search, int64_t at) noexcept nogil:
    """Place a job with its demand on nodes of the fastest kinds that have room, but not where it is slowest."""
    cdef Gangs* gangs = search.gangs
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef double speed = next_speed(gangs, at, INFINITY), slower = next_speed(gangs, at, speed)
    cdef int64_t nodes
    while slower >= 0:
        search.chosen.at_least = speed
        nodes = _choose_fewest(search, at, best)
        search.chosen.at_least = 0.0
        if nodes > 0:
            place_on_chosen(search, at, best)
            return True
        speed, slower = slower, next_speed(gangs, at, slower)
    return False


cdef int64_t place_on_fewest(Search* search, int64_t at) noexcept nogil:
    """Place a job with its demand on as few nodes as have its GPUs; on how many, 0 if these have not all of it."""
    cdef int64_t* best = need_of(search.gangs, search.gangs.demands.best, at)
    cdef int64_t fewest = _choose_fewest(search, at, NULL)
    if fewest == 0 or _choose_fewest(search, at, best) != fewest:
        return 0
    place_on_chosen(search, at, best)
    return fewest


cdef int64_t _choose_fewest(Search* search, int64_t at, int64_t* need) noexcept nogil:
    """Choose as few nodes as possible for a job with a need (NULL: nothing); how many, 0 without a place."""
    return fewest_nodes(search.free, search.draft, search.gangs, at, need, search.chosen)


cdef void place_on_chosen(Search* search, int64_t at, int64_t* need) noexcept nogil:
    """Place a job with a need on the nodes that were chosen for it."""
    cdef Chosen* chosen = search.chosen
    cdef size_t i
    cdef int64_t node
    for i in range(chosen.nodes.size()):
        node = chosen.nodes[i]
        set_amounts(
            search.draft,
            add_part(search.draft, at, node, chosen.gpus[node]),
            need_on(search.gangs, need, node),
        )


cdef bint join_nodes(Search* search, int64_t at) noexcept nogil:
    """Place a job with its fair share on the chosen nodes, where whole jobs make room for it, if that gains.

    Returns whether it has a place.
    """
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef Chosen* chosen = search.chosen
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    cdef vector[int64_t] numbers, amounts
    cdef int64_t node, number, resource, other
    cdef size_t i, place
    cdef int64_t per[SLOTS]
    cdef double gain = 0.0
    cdef bint room = True
    for place in range(chosen.nodes.size()):
        node = chosen.nodes[place]
        number = draft.first_here[node]
        while number >= 0:
            if alone(draft, number):
                other = draft.node_parts[number].at
                numbers.push_back(other)
                per_gpu(draft, number, per)
                for resource in range(draft.resources):
                    amounts.push_back(per[resource] if resource > 0 else 0)
                gain -= gangs.weight[other] * counted_speed(search, other)
                set_amounts(draft, number, need_on(gangs, need_of(gangs, gangs.demands.fair, other), node))
            number = draft.node_parts[number].next_here
        room = room and fits(draft, node, chosen.gpus[node], need_on(gangs, fair, node))
    if room:
        place_on_chosen(search, at, fair)
        for place in range(chosen.nodes.size()):
            divide_node(draft, gangs, chosen.nodes[place])
        raise_gang(draft, gangs, at)
        gain += gangs.weight[at] * counted_speed(search, at)
        for i in range(numbers.size()):
            gain += gangs.weight[numbers[i]] * counted_speed(search, numbers[i])
        if gain > _EPSILON:
            return True
        remove_job(draft, at)
    for i in range(numbers.size()):
        set_amounts(draft, draft.first[numbers[i]], amounts.data() + i * draft.resources)
    return False
