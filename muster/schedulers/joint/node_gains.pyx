"""The node on which one more job raises the worth of all most, and the jobs that leave it for that, compiled."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from muster.cluster.ledger_core cimport SLOTS
from muster.schedulers.allocation.draft_core cimport (
    Draft,
    NodePart,
    add_part,
    alone,
    floor_of,
    free_on,
    is_overdrawn,
    remove_job,
    set_amounts,
    tighter,
)
from muster.schedulers.allocation.gangs_core cimport Gangs, allowed_nodes, best_speed_on, need_of, need_on, place_whole
from muster.schedulers.allocation.resource_fill cimport divide_node, gang_speed
from muster.schedulers.allocation.worth_core cimport running_counts
from muster.schedulers.joint.search cimport Gain, Guesses, Leaving, OnNode, Ranked, Search

cdef double _EPSILON = 1e-9
cdef int64_t _TRIED = 8  # nodes on which a job is tried
cdef int64_t _GUESSES = 1 << 22  # how many guesses are kept, by class and node

cdef enum:
    _LANES = 8  # guesses that are compared at once


cdef void begin_guesses(Guesses* guesses, Gangs* gangs) except *:
    """Nothing is known of the nodes yet."""
    guesses.of_class.resize(gangs.class_count)
    guesses.known.assign(gangs.class_count, 0)
    guesses.changed.push_back(0)
    guesses.room = _GUESSES
    guesses.leaving.assign(gangs.nodes, Leaving(False, 0, 0.0))


cdef void forget_node(Search* search, int64_t node) noexcept nogil:
    """Forget what is known of a node, as it has changed."""
    search.guesses.changed.push_back(node)
    search.guesses.leaving[node].known = False
    search.on_node[node].known = False


cdef Trial best_node(Search* search, int64_t at) noexcept nogil:
    """The node for the whole job that gains most, and how many of its jobs leave; of equals the fullest."""
    cdef vector[Ranked] nodes
    cdef Trial best = Trial(_EPSILON, -1, 0)
    cdef int64_t node, leave, least
    cdef size_t place
    cdef double gain, most = search.gangs.weight[at] * (search.running.worth + _best_speed(search.gangs, at))
    _candidates(search, at, nodes)
    for place in range(nodes.size()):
        node = nodes[place].second
        least = _least_to_leave(search, at, node)
        if search.network != NULL and least > 0:
            continue  # The order decides which run; else jobs interrupt each other in turn.
        for leave in range(least, least + 3 if least >= 0 else least):
            if leave > 0 and most - _lost_worth(search, node, leave) <= best.gain:
                break
            if leave == 0 and _another_is_cheaper(search, nodes, place):
                continue
            gain = _gain_on(search, at, node, leave)
            if gain > best.gain + _EPSILON or (
                best.node >= 0 and gain > best.gain - _EPSILON and tighter(search.draft, node, best.node, -1)
            ):
                best = Trial(gain, node, leave)
    return best


cdef bint _another_is_cheaper(Search* search, vector[Ranked]& nodes, size_t place) noexcept nogil:
    """Whether another of the nodes is alike, with jobs worth less: these share with the job in place of those here."""
    cdef OnNode* here = _jobs_on(search, nodes[place].second)
    cdef OnNode* there
    cdef size_t other = place
    while other > 0 and nodes[other - 1].first == nodes[place].first:
        other -= 1
    while other < nodes.size() and nodes[other].first == nodes[place].first:
        there = _jobs_on(search, nodes[other].second)
        if there.alike == here.alike and (
            there.worth_alone < here.worth_alone or (there.worth_alone == here.worth_alone and other < place)
        ):
            return True
        other += 1
    return False


cdef void _candidates(Search* search, int64_t at, vector[Ranked]& nodes) noexcept nogil:
    """The nodes that could hold the whole job and cost the jobs there least, by a guess: those to try."""
    cdef Gangs* gangs = search.gangs
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef double* guesses = _guesses(search, at)
    cdef double guess, most = INFINITY
    cdef int64_t node = -1
    cdef size_t place
    nodes.reserve(_TRIED)
    while node + 1 < gangs.nodes:
        node += 1
        if guesses != NULL and node % _LANES == 0 and not _some_below(guesses + node, most):
            node += _LANES - 1
            continue
        guess = guesses[node] if guesses != NULL else _guess(search, at, node)
        if guess < most and allowed[node]:
            if <int64_t> nodes.size() == _TRIED:
                nodes.pop_back()
            place = nodes.size()
            while place > 0 and nodes[place - 1].first > guess:
                place -= 1
            nodes.insert(nodes.begin() + place, Ranked(guess, node))
            if <int64_t> nodes.size() == _TRIED:
                most = nodes.back().first


cdef inline bint _some_below(double* values, double most) noexcept nogil:
    """Whether some of so many values as a processor compares at once are below another."""
    cdef int lane, below = 0
    for lane in range(_LANES):
        below |= values[lane] < most
    return below != 0


cdef double* _guesses(Search* search, int64_t at) noexcept nogil:
    """The guess of each node for jobs of this class; NULL where so many are not kept."""
    cdef Guesses* guesses = search.guesses
    cdef int64_t number = search.gangs.classes[at], node
    cdef vector[double]* known = &guesses.of_class[number]
    cdef size_t i
    if guesses.known[number] == 0:
        if guesses.room < search.gangs.nodes:
            return NULL
        guesses.room -= search.gangs.nodes
        known.resize(search.gangs.nodes + _LANES, INFINITY)
        for node in range(search.gangs.nodes):
            known.data()[node] = _guess(search, at, node)
    for i in range(guesses.known[number], guesses.changed.size() if guesses.known[number] > 0 else 0):
        known.data()[guesses.changed[i]] = _guess(search, at, guesses.changed[i])
    guesses.known[number] = guesses.changed.size()
    return known.data()


cdef double _guess(Search* search, int64_t at, int64_t node) noexcept nogil:
    """What a job on a node costs the jobs there, by a guess that is the same for all jobs of its class.

    INFINITY: there is no room.
    """
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef int64_t* need = need_on(gangs, need_of(gangs, gangs.demands.best, at), node)
    cdef int64_t* left = free_on(draft, node)
    cdef int64_t resource, gpus = gangs.gpus[at], free
    cdef double short_of = 0.0, cheapest = 0.0
    cdef Leaving* leaving
    if left[0] < gpus:
        leaving = _leaving(search, node)
        if left[0] + leaving.gpus < gpus:
            return INFINITY
        cheapest = leaving.cheapest
    for resource in range(1, draft.resources):
        free = max(left[resource], <int64_t> 0)
        if gpus * need[resource] > free:
            short_of = max(short_of, 1.0 - <double> free / (gpus * need[resource]))
    return cheapest * 10 + short_of + left[0] * 1e-6


cdef inline Leaving* _leaving(Search* search, int64_t node) noexcept nogil:
    """The jobs that may leave a node."""
    cdef Draft* draft = search.draft
    cdef Leaving* leaving = &search.guesses.leaving[node]
    cdef NodePart* part
    cdef int64_t number
    if leaving.known:
        return leaving
    leaving[0] = Leaving(True, 0, INFINITY)
    number = draft.first_here[node]
    while number >= 0:
        part = &draft.node_parts[number]
        if _may_leave(draft, number):
            leaving.gpus += part.gpus
            leaving.cheapest = min(leaving.cheapest, search.gangs.weight[part.at] / part.gpus)
        number = part.next_here
    return leaving


cdef inline bint _may_leave(Draft* draft, int64_t number) noexcept nogil:
    """Whether a node part is a whole job that may be stopped."""
    return alone(draft, number) and draft.movable[draft.node_parts[number].at]


cdef OnNode* _jobs_on(Search* search, int64_t node) noexcept nogil:
    """What the jobs of a node are worth; what those of several nodes have there stays as it is once they are placed."""
    cdef Draft* draft = search.draft
    cdef int64_t number = draft.first_here[node], at, resource
    cdef int64_t shared[SLOTS]
    cdef double worth
    cdef OnNode* jobs = &search.on_node[node]
    if jobs.known:
        return jobs
    jobs.known, jobs.worth, jobs.worth_alone = True, 0.0, 0.0
    jobs.may_leave.clear()
    jobs.gains.clear()
    jobs.alike = _scattered(search.gangs.kind_of_node[node])
    for resource in range(draft.resources):
        shared[resource] = free_on(draft, node)[resource]
    while number >= 0:
        at = draft.node_parts[number].at
        worth = search.gangs.weight[at] * counted_speed(search, at)
        jobs.worth += worth
        if _may_leave(draft, number):
            jobs.may_leave.push_back(Ranked(worth / search.gangs.gpus[at], at))
        if alone(draft, number):
            jobs.worth_alone += worth
            jobs.alike += _scattered(2 * search.gangs.classes[at] + draft.movable[at])
            for resource in range(1, draft.resources):
                shared[resource] += draft.node_parts[number].amount[resource]
        number = draft.node_parts[number].next_here
    for resource in range(draft.resources):
        jobs.alike = _scattered(jobs.alike + shared[resource])
    sort(jobs.may_leave.begin(), jobs.may_leave.end())
    return jobs


cdef inline uint64_t _scattered(uint64_t number) noexcept nogil:
    """A hash of 64 bits; the sum of several is one of all of them, in any order."""
    number = (number + 1) * <uint64_t> 0x9E3779B97F4A7C15
    number = (number ^ (number >> 32)) * <uint64_t> 0xD6E8FEB86659FD93
    return number ^ (number >> 32)


cdef int64_t _least_to_leave(Search* search, int64_t at, int64_t node) noexcept nogil:
    """How many jobs must leave a node so that the job has GPUs there; -1: it never has."""
    cdef vector[Ranked]* jobs
    cdef int64_t free = free_on(search.draft, node)[0], count = 0
    if free >= search.gangs.gpus[at]:
        return 0
    jobs = &_jobs_on(search, node).may_leave
    while free < search.gangs.gpus[at]:
        if count == <int64_t> jobs.size():
            return -1
        free += search.gangs.gpus[jobs.at(count).second]
        count += 1
    return count


cdef double _best_speed(Gangs* gangs, int64_t at) noexcept nogil:
    """The speed of a job's last choice on the kind of node where that is highest."""
    cdef int64_t kind
    cdef double most = 0.0
    for kind in range(gangs.kind_count):
        most = max(most, best_speed_on(gangs, at, kind))
    return most


cdef double _lost_worth(Search* search, int64_t node, int64_t leave) noexcept nogil:
    """What is lost at least if so many jobs leave a node, those first that are worth least for each GPU."""
    cdef vector[Ranked]* jobs = &_jobs_on(search, node).may_leave
    cdef int64_t i, other
    cdef double lost = 0.0
    for i in range(min(leave, <int64_t> jobs.size())):
        other = jobs.at(i).second
        lost += (1 + search.cost[other]) * jobs.at(i).first * search.gangs.gpus[other]
    return lost


cdef double counted_speed(Search* search, int64_t at) noexcept nogil:
    """The speed of a job, and what it counts that it runs."""
    cdef double speed = gang_speed(search.draft, search.gangs, at)
    return speed + running_counts(search.running, speed)


cdef double _worth_on(Search* search, int64_t node) noexcept nogil:
    """The worth of the jobs that have GPUs of a node."""
    cdef double total = 0.0
    cdef int64_t number = search.draft.first_here[node], at
    while number >= 0:
        at = search.draft.node_parts[number].at
        total += search.gangs.weight[at] * counted_speed(search, at)
        number = search.draft.node_parts[number].next_here
    return total


cdef double _gain_on(Search* search, int64_t at, int64_t node, int64_t leave) noexcept nogil:
    """What the worth of all gains with a job on a node that so many others leave, or with one that is alike."""
    cdef Gangs* gangs = search.gangs
    cdef OnNode* here = _jobs_on(search, node)
    cdef size_t i
    cdef Gain* known
    cdef double gain
    for i in range(here.gains.size()):
        known = &here.gains[i]
        if known.class_ == gangs.classes[at] and known.leave == leave and known.weight == gangs.weight[at]:
            return known.gain
    gain = _try_on(search, at, node, leave)
    here.gains.push_back(Gain(gangs.classes[at], leave, gangs.weight[at], gain))
    return gain


cdef double _try_on(Search* search, int64_t at, int64_t node, int64_t leave) noexcept nogil:
    """What the worth of all gains with a job on a node that so many others leave; the draft is as it was."""
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef OnNode* here = _jobs_on(search, node)
    cdef vector[Ranked]* jobs = &here.may_leave
    cdef vector[int64_t] others, amounts
    cdef int64_t number, resource, i, other
    cdef int64_t per[SLOTS]
    cdef double gain, restarts = 0.0
    if leave > <int64_t> jobs.size():
        return -INFINITY
    number = draft.first_here[node]
    while number >= 0:
        if alone(draft, number):
            others.push_back(draft.node_parts[number].at)
            for resource in range(draft.resources):
                amounts.push_back(draft.node_parts[number].amount[resource])
        number = draft.node_parts[number].next_here
    for i in range(leave):
        other = jobs.at(i).second
        restarts += search.cost[other] * jobs.at(i).first * gangs.gpus[other]
        remove_job(draft, other)
    place_whole(draft, gangs, at, node, need_of(gangs, gangs.demands.fair, at))
    divide_node(draft, gangs, node)
    gain = -INFINITY if is_overdrawn(draft, node) else _worth_on(search, node) - here.worth - restarts
    remove_job(draft, at)
    for i in range(leave):
        add_part(draft, jobs.at(i).second, node, gangs.gpus[jobs.at(i).second])
    for i in range(<int64_t> others.size()):
        for resource in range(1, draft.resources):
            per[resource] = floor_of(amounts[i * draft.resources + resource], gangs.gpus[others[i]])
        set_amounts(draft, draft.first[others[i]], per)
    return gain


cdef void take_place(
    Search* search, int64_t at, Trial found, vector[int64_t]& queue, vector[bint]& lost
) noexcept nogil:
    """Put a job on the node that was found; those that leave are tried again later, once."""
    cdef vector[Ranked]* jobs = &_jobs_on(search, found.node).may_leave
    cdef int64_t i, other
    for i in range(found.leave):
        other = jobs.at(i).second
        remove_job(search.draft, other)
        if not lost[other]:
            queue.push_back(other)
        lost[other] = True
    place_whole(search.draft, search.gangs, at, found.node, need_of(search.gangs, search.gangs.demands.fair, at))
    divide_node(search.draft, search.gangs, found.node)
