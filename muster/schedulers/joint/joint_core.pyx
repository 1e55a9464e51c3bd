"""Jobs put on nodes one after the other where the worth of all gains most, compiled; see `joint`.

The worth of a node is the speed of its jobs, each times its weight. A job may take the place of jobs that are worth
less.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libcpp.algorithm cimport partial_sort, sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from muster.cluster.arrays cimport floats, ints
from muster.cluster.ledger_core cimport SLOTS
from muster.schedulers.allocation.draft_core cimport (
    Draft,
    NodePart,
    add_part,
    alone,
    draft_of,
    fits,
    floor_of,
    free_on,
    is_overdrawn,
    per_gpu,
    remove_job,
    set_amounts,
    tighter,
)
from muster.schedulers.allocation.gangs_core cimport (
    Gangs,
    allowed_nodes,
    gangs_of,
    need_of,
    need_on,
    place_gang,
    place_whole,
)
from muster.schedulers.allocation.resource_fill cimport divide_node, gang_speed, raise_gang
from muster.schedulers.allocation.search_core cimport best_fits, fewest_nodes

cdef double _EPSILON = 1e-9
cdef int64_t _TRIED = 8  # nodes on which a job is tried

ctypedef pair[double, int64_t] Ranked

# What a search works on; `cost` is the part of a job's speed that taking its place away loses.
cdef struct Search:
    Draft* draft
    Gangs* gangs
    double* cost

# That a job of a class gained nothing anywhere: after how many changes, under which constraint, what it counted.
cdef struct Refused:
    int64_t at_change
    int64_t constraint
    double weight

# A node for a job, how many jobs leave it, and what that gains.
cdef struct Trial:
    double gain
    int64_t node
    int64_t leave


def place_jointly(draft, gangs, order, cost):
    """Place the jobs of `order` that have no place, each where the worth of all gains most, if it gains at all.

    A job whose place is taken comes once more at the end.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef Search search = Search(&plan, &jobs, floats(cost).at)
    cdef vector[int64_t] take, queue
    cdef vector[bint] lost
    cdef vector[Refused] refused
    cdef int64_t* numbers = ints(order).at
    cdef int64_t i, at, changes = 0
    cdef size_t place = 0
    cdef Refused* known
    take.resize(jobs.nodes)
    lost.assign(jobs.jobs, False)
    refused.assign(jobs.class_count, Refused(-1, 0, 0.0))
    for i in range(ints(order).size):
        queue.push_back(numbers[i])
    while place < queue.size():
        at = queue[place]
        place += 1
        if not plan.movable[at] or plan.first[at] >= 0:
            continue
        known = &refused[jobs.classes[at]]
        if known.at_change == changes and known.constraint == jobs.constraint[at] and jobs.weight[at] <= known.weight:
            continue
        if _place(&search, at, take.data(), queue, lost):
            changes += 1
        else:
            known[0] = Refused(changes, jobs.constraint[at], jobs.weight[at])


cdef bint _place(
    Search* search, int64_t at, int64_t* take, vector[int64_t]& queue, vector[bint]& lost
) noexcept nogil:
    """Place a job where that gains most; whether it has a place."""
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef int64_t node = -1
    cdef Trial found
    if gangs.kind_count == 1:
        node = best_fits(draft, gangs, at, best, best).with_best
    if node >= 0:
        place_whole(draft, gangs, at, node, best)
        return True
    found = _best_node(search, at)
    if found.node < 0:
        return _place_apart(search, at, take)
    _take_place(search, at, found, queue, lost)
    return True


cdef Trial _best_node(Search* search, int64_t at) noexcept nogil:
    """The node for the whole job that gains most, and how many of its jobs leave; of equals the fullest."""
    cdef vector[Ranked] nodes
    cdef Trial best = Trial(_EPSILON, -1, 0)
    cdef int64_t node, leave, least
    cdef size_t place, tried
    cdef double gain, most = search.gangs.weight[at] * _best_speed(search.gangs, at)
    _candidates(search, at, nodes)
    tried = min(nodes.size(), <size_t> _TRIED)
    partial_sort(nodes.begin(), nodes.begin() + tried, nodes.end())
    for place in range(tried):
        node = nodes[place].second
        least = _least_to_leave(search, at, node)
        for leave in range(least, least + 3 if least >= 0 else least):
            if leave > 0 and most - _lost_worth(search, node, leave) <= best.gain:
                break
            gain = _gain_on(search, at, node, leave)
            if gain > best.gain + _EPSILON or (
                best.node >= 0 and gain > best.gain - _EPSILON and tighter(search.draft, node, best.node, -1)
            ):
                best = Trial(gain, node, leave)
    return best


cdef void _candidates(Search* search, int64_t at, vector[Ranked]& nodes) noexcept nogil:
    """The nodes that could hold the whole job, by a guess of what it costs the jobs there: least first."""
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef int64_t node, resource, gpus = gangs.gpus[at], number, freed, free
    cdef int64_t* need
    cdef double short_of, guess, cheapest
    cdef NodePart* part
    for node in range(gangs.nodes):
        if not allowed[node]:
            continue
        need = need_on(gangs, need_of(gangs, gangs.demands.best, at), node)
        short_of = 0.0
        freed, cheapest = free_on(draft, node)[0], 0.0
        if freed < gpus:
            cheapest = INFINITY
            number = draft.first_here[node]
            while number >= 0:
                part = &draft.node_parts[number]
                if _may_leave(draft, number):
                    freed += part.gpus
                    cheapest = min(cheapest, gangs.weight[part.at] / part.gpus)
                number = part.next_here
            if freed < gpus:
                continue
        for resource in range(1, draft.resources):
            free = max(free_on(draft, node)[resource], <int64_t> 0)
            if gpus * need[resource] > free:
                short_of = max(short_of, 1.0 - <double> free / (gpus * need[resource]))
        guess = cheapest * 10 + short_of + free_on(draft, node)[0] * 1e-6
        nodes.push_back(Ranked(guess, node))


cdef inline bint _may_leave(Draft* draft, int64_t number) noexcept nogil:
    """Whether a node part is a whole job that may be stopped."""
    return alone(draft, number) and draft.movable[draft.node_parts[number].at]


cdef void _by_worth(Search* search, int64_t node, vector[Ranked]& jobs) noexcept nogil:
    """The jobs of a node that may leave, those first that are worth least for each GPU."""
    cdef int64_t number = search.draft.first_here[node], at
    cdef double worth
    while number >= 0:
        at = search.draft.node_parts[number].at
        if _may_leave(search.draft, number):
            worth = search.gangs.weight[at] * gang_speed(search.draft, search.gangs, at) / search.gangs.gpus[at]
            jobs.push_back(Ranked(worth, at))
        number = search.draft.node_parts[number].next_here
    sort(jobs.begin(), jobs.end())


cdef int64_t _least_to_leave(Search* search, int64_t at, int64_t node) noexcept nogil:
    """How many jobs must leave a node so that the job has GPUs there; -1: it never has."""
    cdef vector[Ranked] jobs
    cdef int64_t free = free_on(search.draft, node)[0], count = 0
    _by_worth(search, node, jobs)
    while free < search.gangs.gpus[at]:
        if count == <int64_t> jobs.size():
            return -1
        free += search.gangs.gpus[jobs[count].second]
        count += 1
    return count


cdef double _best_speed(Gangs* gangs, int64_t at) noexcept nogil:
    """The speed of a job's last choice on the kind of node where that is highest."""
    cdef int64_t pair = gangs.classes[at] * gangs.kind_count, kind
    cdef double most = 0.0
    for kind in range(gangs.kind_count):
        most = max(most, gangs.demands.choice_speed[gangs.demands.first_choice[pair + kind + 1] - 1])
    return most


cdef double _lost_worth(Search* search, int64_t node, int64_t leave) noexcept nogil:
    """What is lost at least if so many jobs leave a node, those first that are worth least for each GPU."""
    cdef vector[Ranked] jobs
    cdef int64_t i, other
    cdef double lost = 0.0
    _by_worth(search, node, jobs)
    for i in range(min(leave, <int64_t> jobs.size())):
        other = jobs[i].second
        lost += (1 + search.cost[other]) * jobs[i].first * search.gangs.gpus[other]
    return lost


cdef double _worth_on(Search* search, int64_t node) noexcept nogil:
    """The worth of the jobs that have GPUs of a node."""
    cdef double total = 0.0
    cdef int64_t number = search.draft.first_here[node], at
    while number >= 0:
        at = search.draft.node_parts[number].at
        total += search.gangs.weight[at] * gang_speed(search.draft, search.gangs, at)
        number = search.draft.node_parts[number].next_here
    return total


cdef double _gain_on(Search* search, int64_t at, int64_t node, int64_t leave) noexcept nogil:
    """What the worth of all gains with a job on a node that so many others leave; the draft is as it was."""
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef vector[Ranked] jobs
    cdef vector[int64_t] others, amounts
    cdef int64_t number, resource, i, other
    cdef int64_t per[SLOTS]
    cdef double before, gain, worth, restarts = 0.0
    if leave > 0:
        _by_worth(search, node, jobs)
        if leave > <int64_t> jobs.size():
            return -INFINITY
    number = draft.first_here[node]
    while number >= 0:
        if alone(draft, number):
            others.push_back(draft.node_parts[number].at)
            for resource in range(draft.resources):
                amounts.push_back(draft.node_parts[number].amount[resource])
        number = draft.node_parts[number].next_here
    before = _worth_on(search, node)
    for i in range(leave):
        other = jobs[i].second
        restarts += search.cost[other] * jobs[i].first * gangs.gpus[other]
        remove_job(draft, other)
    place_whole(draft, gangs, at, node, need_of(gangs, gangs.demands.fair, at))
    divide_node(draft, gangs, node)
    gain = -INFINITY if is_overdrawn(draft, node) else _worth_on(search, node) - before - restarts
    remove_job(draft, at)
    for i in range(leave):
        add_part(draft, jobs[i].second, node, gangs.gpus[jobs[i].second])
    for i in range(<int64_t> others.size()):
        for resource in range(1, draft.resources):
            per[resource] = floor_of(amounts[i * draft.resources + resource], gangs.gpus[others[i]])
        set_amounts(draft, draft.first[others[i]], per)
    return gain


cdef void _take_place(
    Search* search, int64_t at, Trial found, vector[int64_t]& queue, vector[bint]& lost
) noexcept nogil:
    """Put a job on the node that was found; those that leave are tried again later, once."""
    cdef vector[Ranked] jobs
    cdef int64_t i, other
    _by_worth(search, found.node, jobs)
    for i in range(found.leave):
        other = jobs[i].second
        remove_job(search.draft, other)
        if not lost[other]:
            queue.push_back(other)
        lost[other] = True
    place_whole(search.draft, search.gangs, at, found.node, need_of(search.gangs, search.gangs.demands.fair, at))
    divide_node(search.draft, search.gangs, found.node)


cdef bint _place_apart(Search* search, int64_t at, int64_t* take) noexcept nogil:
    """Place a job on as few nodes as have its GPUs, else on as few as have what it needs; whether it has a place."""
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    cdef int64_t fewest = fewest_nodes(draft, gangs, at, NULL, take)
    if fewest == 0:
        return False
    if fewest_nodes(draft, gangs, at, best, take) == fewest:
        place_gang(draft, gangs, at, best, take)
        return True
    fewest_nodes(draft, gangs, at, NULL, take)
    if _join_nodes(search, at, take):
        return True
    if fewest_nodes(draft, gangs, at, best, take) > 0:
        place_gang(draft, gangs, at, best, take)
        return True
    return fewest_nodes(draft, gangs, at, fair, take) > 0 and _join_nodes(search, at, take)


cdef bint _join_nodes(Search* search, int64_t at, int64_t* take) noexcept nogil:
    """Place a job with its fair share on these nodes, where jobs on one node alone make room for it, if that gains.

    Returns whether it has a place.
    """
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    cdef vector[int64_t] numbers, amounts
    cdef int64_t node, number, resource, other
    cdef size_t i
    cdef int64_t per[SLOTS]
    cdef double gain = 0.0
    cdef bint room = True
    for node in range(gangs.nodes):
        if take[node] == 0:
            continue
        number = draft.first_here[node]
        while number >= 0:
            if alone(draft, number):
                other = draft.node_parts[number].at
                numbers.push_back(other)
                per_gpu(draft, number, per)
                for resource in range(draft.resources):
                    amounts.push_back(per[resource] if resource > 0 else 0)
                gain -= gangs.weight[other] * gang_speed(draft, gangs, other)
                set_amounts(draft, number, need_on(gangs, need_of(gangs, gangs.demands.fair, other), node))
            number = draft.node_parts[number].next_here
        room = room and fits(draft, node, take[node], need_on(gangs, fair, node))
    if room:
        place_gang(draft, gangs, at, fair, take)
        for node in range(gangs.nodes):
            if take[node] > 0:
                divide_node(draft, gangs, node)
        raise_gang(draft, gangs, at)
        gain += gangs.weight[at] * gang_speed(draft, gangs, at)
        for i in range(numbers.size()):
            gain += gangs.weight[numbers[i]] * gang_speed(draft, gangs, numbers[i])
        if gain > _EPSILON:
            return True
        remove_job(draft, at)
    for i in range(numbers.size()):
        set_amounts(draft, draft.first[numbers[i]], amounts.data() + i * draft.resources)
    return False
