"""Jobs put on nodes one after the other where the worth of all gains most, compiled; see `joint`.

The worth of a node is the speed of its jobs, each times its weight. A job may take the place of jobs that are worth
less.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.algorithm cimport sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, floats, ints
from muster.cluster.ledger_core cimport SLOTS, Books, Node, books_of
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
    forms_of,
    gangs_of,
    need_of,
    need_on,
    place_whole,
)
from muster.schedulers.allocation.resource_fill cimport divide_node, form_of, gang_speed, raise_gang
from muster.schedulers.allocation.worth_core cimport ForRunning, for_running_of, running_counts
from muster.schedulers.joint.form_index cimport (
    FormIndex,
    Room,
    begin_index,
    find_evenly,
    find_machine,
    forget_chosen,
    most_in_a_rack,
    room_of,
    show_room,
)
from muster.schedulers.joint.free_nodes cimport (
    Chosen,
    FreeNodes,
    fewest_nodes,
    list_nodes,
    tightest_node,
    update_node,
)
from muster.schedulers.placement.delay_scheduling cimport MACHINE, Workspace, workspace_for
from muster.schedulers.placement.network_aware cimport FormsOfGang, find_form, form_on_machine

from muster.speed.network.forms import EVENLY, IN_ISLAND, IN_RACK

cdef int64_t _IN_ISLAND = IN_ISLAND
cdef int64_t _EVENLY = EVENLY  # forms up to this one have the same number of GPUs on each of their machines
cdef int64_t _IN_RACK = IN_RACK

cdef double _EPSILON = 1e-9
cdef int64_t _TRIED = 8  # nodes on which a job is tried
cdef int64_t _GUESSES = 1 << 22  # how many guesses are kept, by class and node

cdef enum:
    _LANES = 8  # guesses that are compared at once

ctypedef pair[double, int64_t] Ranked

# What places on a network are looked for with.
cdef struct Network:
    Books books  # its nodes have free what the draft leaves there and a job can use, for a search of all of them
    Workspace work
    FormIndex index
    Draft* before  # where jobs run
    int64_t* held_here  # by node: GPUs of running jobs that have no place yet and had no turn
    vector[uint8_t] awaits  # by position: whether a job is one of those
    int64_t* nothing  # a need, by resource
    double enough  # share of a job's best speed below which it waits
    # GPUs that the draft leaves: by node, on all, on the one with most, and on how many nodes there are so many.
    vector[int64_t] free_here
    int64_t free_gpus
    int64_t most_free
    vector[int64_t] counts

# The jobs of a node that may leave it: their GPUs, and the least that one of them counts for a GPU.
cdef struct Leaving:
    bint known
    int64_t gpus
    double cheapest

# What is known of the nodes for the jobs of each class; see `_guess`.
cdef struct Guesses:
    vector[Leaving] leaving  # by node
    vector[int64_t] changed  # nodes, one after the other as they changed
    vector[size_t] known  # by class: how many of those changes the guesses know; 0: there are none yet
    vector[vector[double]] of_class  # by class and node
    int64_t room  # how many more guesses may be kept

# What the worth of all gains with a job of a class and weight on a node that so many others leave.
cdef struct Gain:
    int64_t class_
    int64_t leave
    double weight
    double gain

# What is known of the jobs of a node until it changes.
cdef struct OnNode:
    bint known
    double worth  # of all of them
    double worth_alone  # of those that have all their GPUs here
    uint64_t alike  # the same number for nodes of a kind that share as much among jobs of the same classes
    vector[Ranked] may_leave  # those first that are worth least for each GPU
    vector[Gain] gains  # of the jobs that were tried here

# What a search works on; `cost` is the part of a job's speed that taking its place away loses.
cdef struct Search:
    Draft* draft
    Gangs* gangs
    double* cost
    ForRunning* running
    Network* network  # NULL: every place is as fast as any other
    FreeNodes* free
    Chosen* chosen
    Guesses* guesses
    OnNode* on_node
    bint apart_first  # a gang takes what is free on several nodes before jobs leave one for it

# That a job of a class gained nothing anywhere: after how many changes, on how many GPUs (gangs larger than any machine
# are of one class), under which constraint, what it counted.
cdef struct Refused:
    int64_t at_change
    int64_t gpus
    int64_t constraint
    double weight

# A node for a job, how many jobs leave it, and what that gains.
cdef struct Trial:
    double gain
    int64_t node
    int64_t leave


def place_jointly(draft, gangs, order, cost, running, apart_first):
    """Place the jobs of `order` that have no place, each where the worth of all gains most, if it gains at all.

    A job whose place is taken comes once more at the end.

    `apart_first`: a gang takes what is free on several nodes before jobs leave one for it, if all nodes are of a kind.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef ForRunning counts = for_running_of(running)
    cdef Search search = Search(&plan, &jobs, floats(cost).at, &counts, NULL, NULL, NULL, NULL, NULL, False)
    search.apart_first = apart_first and jobs.kind_count == 1
    _place_all(&search, ints(order))


def place_on_network(books, draft, before, gangs, order, cost, running, enough):
    """Place the jobs of `order` as `place_jointly` does, each on the fastest form that has a place.

    A job whose place in `before` is free and as fast stays there. One whose places all offer less than the first of
    `enough` of its best speed waits for the next pass, which asks for the second, and so on.
    """
    cdef Draft plan = draft_of(draft), was = draft_of(before)
    cdef Gangs jobs = gangs_of(gangs)
    cdef Network network
    cdef ForRunning counts = for_running_of(running)
    cdef Search search = Search(&plan, &jobs, floats(cost).at, &counts, &network, NULL, NULL, NULL, NULL, False)
    cdef vector[Node] nodes
    cdef vector[int64_t] numbers, held, nothing
    cdef vector[uint8_t] inside
    cdef int64_t node
    network.books = books_of(books)
    nodes.assign(network.books.nodes, network.books.nodes + network.books.node_count)
    network.books.nodes = nodes.data()
    network.work = workspace_for(&network.books, numbers, inside)
    nothing.assign(SLOTS, 0)
    network.before, network.nothing = &was, nothing.data()
    network.free_here.assign(jobs.nodes, 0)
    network.counts.assign(1, jobs.nodes)
    network.free_gpus = network.most_free = 0
    for node in range(jobs.nodes):
        _count_free(&search, node)
    for network.enough in enough:
        held.assign(jobs.nodes, 0)
        network.awaits.assign(jobs.jobs, False)
        network.held_here = held.data()
        _count_held(&search)
        begin_index(&network.index, &jobs, network.work.rack_count, network.held_here)
        _place_all(&search, ints(order))


cdef void _place_all(Search* search, Ints order) except *:
    """Place the jobs of an order that have no place; one whose place is taken comes once more at the end."""
    cdef Draft* plan = search.draft
    cdef Gangs* jobs = search.gangs
    cdef vector[int64_t] queue
    cdef vector[bint] lost
    cdef FreeNodes free
    cdef Chosen chosen
    cdef Guesses guesses
    cdef vector[OnNode] on_node
    cdef vector[Refused] refused
    cdef int64_t* numbers = order.at
    cdef int64_t i, at, changes = 0
    cdef size_t place = 0
    cdef Refused* known
    chosen.gpus.assign(jobs.nodes, 0)
    if search.network == NULL:
        list_nodes(&free, plan)
    guesses.of_class.resize(jobs.class_count)
    guesses.known.assign(jobs.class_count, 0)
    guesses.changed.push_back(0)
    guesses.room = _GUESSES
    guesses.leaving.assign(jobs.nodes, Leaving(False, 0, 0.0))
    on_node.resize(jobs.nodes)
    search.free, search.chosen, search.guesses, search.on_node = &free, &chosen, &guesses, on_node.data()
    lost.assign(jobs.jobs, False)
    refused.assign(jobs.class_count, Refused(-1, 0, 0, 0.0))
    for i in range(order.size):
        queue.push_back(numbers[i])
    while place < queue.size():
        at = queue[place]
        place += 1
        if not plan.movable[at] or plan.first[at] >= 0:
            continue
        known = &refused[jobs.classes[at]]
        if (
            known.at_change == changes
            and known.gpus == jobs.gpus[at]
            and known.constraint == jobs.constraint[at]
            and jobs.weight[at] <= known.weight
        ):
            continue
        if _place(search, at, queue, lost):
            changes += 1
            _note_changes(search, at)
        else:
            known[0] = Refused(changes, jobs.gpus[at], jobs.constraint[at], jobs.weight[at])


cdef void _note_changes(Search* search, int64_t at) noexcept nogil:
    """Note that the nodes of a job have changed, which has just been placed there."""
    cdef int64_t number = search.draft.first[at], node
    while number >= 0:
        node = search.draft.node_parts[number].node
        if search.network == NULL:
            update_node(search.free, search.draft, node)
        else:
            _count_free(search, node)
            search.network.index.changed.push_back(node)
        search.guesses.changed.push_back(node)
        search.guesses.leaving[node].known = False
        search.on_node[node].known = False
        number = search.draft.node_parts[number].next


cdef bint _place(Search* search, int64_t at, vector[int64_t]& queue, vector[bint]& lost) noexcept nogil:
    """Place a job where that gains most; whether it has a place."""
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef int64_t node = -1
    cdef Trial found
    if search.network != NULL:
        if _place_on_form(search, at):
            return True
        if search.network.free_gpus < gangs.gpus[at]:
            return False
    elif gangs.kind_count == 1:
        node = tightest_node(search.free, draft, gangs, at, gangs.gpus[at], best, NULL)
    if node >= 0:
        place_whole(draft, gangs, at, node, best)
        return True
    if search.apart_first and _place_on_fewest(search, at):
        return True
    found = _best_node(search, at)
    if found.node < 0:
        return _place_apart(search, at) if search.network == NULL else _join_on_form(search, at)
    _take_place(search, at, found, queue, lost)
    return True


cdef Trial _best_node(Search* search, int64_t at) noexcept nogil:
    """The node for the whole job that gains most, and how many of its jobs leave; of equals the fullest."""
    cdef vector[Ranked] nodes
    cdef Trial best = Trial(_EPSILON, -1, 0)
    cdef int64_t node, leave, least
    cdef size_t place
    cdef double gain, most = search.gangs.weight[at] * (search.running.worth + _best_speed(search.gangs, at))
    if not _fits_some_machine(search.gangs, at) or (search.network != NULL and not _may_share_machine(search, at)):
        return best
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


cdef bint _fits_some_machine(Gangs* gangs, int64_t at) noexcept nogil:
    """Whether a machine has as many GPUs as a job."""
    cdef int64_t kind
    for kind in range(gangs.kind_count):
        if gangs.kinds[kind].gpus >= gangs.gpus[at]:
            return True
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
        worth = search.gangs.weight[at] * _counted_speed(search, at)
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
    cdef int64_t pair = gangs.classes[at] * gangs.kind_count, kind
    cdef double most = 0.0
    for kind in range(gangs.kind_count):
        most = max(most, gangs.demands.choice_speed[gangs.demands.first_choice[pair + kind + 1] - 1])
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


cdef inline double _counted_speed(Search* search, int64_t at) noexcept nogil:
    """The speed of a job, and what it counts that it runs."""
    cdef double speed = gang_speed(search.draft, search.gangs, at)
    return speed + running_counts(search.running, speed)


cdef double _worth_on(Search* search, int64_t node) noexcept nogil:
    """The worth of the jobs that have GPUs of a node."""
    cdef double total = 0.0
    cdef int64_t number = search.draft.first_here[node], at
    while number >= 0:
        at = search.draft.node_parts[number].at
        total += search.gangs.weight[at] * _counted_speed(search, at)
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


cdef void _take_place(
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


cdef bint _place_apart(Search* search, int64_t at) noexcept nogil:
    """Place a job on as few nodes as have its GPUs, else on as few as have what it needs; whether it has a place."""
    cdef Gangs* gangs = search.gangs
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    if not search.apart_first and _place_on_fewest(search, at):
        return True
    if _choose_fewest(search, at, NULL) == 0:
        return False
    if _join_nodes(search, at):
        return True
    if _choose_fewest(search, at, best) > 0:
        _place_on_chosen(search, at, best)
        return True
    return _choose_fewest(search, at, fair) > 0 and _join_nodes(search, at)


cdef int64_t _place_on_fewest(Search* search, int64_t at) noexcept nogil:
    """Place a job with its demand on as few nodes as have its GPUs; on how many, 0 if these have not all of it."""
    cdef int64_t* best = need_of(search.gangs, search.gangs.demands.best, at)
    cdef int64_t fewest = _choose_fewest(search, at, NULL)
    if fewest == 0 or _choose_fewest(search, at, best) != fewest:
        return 0
    _place_on_chosen(search, at, best)
    return fewest


cdef int64_t _choose_fewest(Search* search, int64_t at, int64_t* need) noexcept nogil:
    """Choose as few nodes as possible for a job with a need (NULL: nothing); how many, 0 without a place."""
    return fewest_nodes(search.free, search.draft, search.gangs, at, need, search.chosen)


cdef void _place_on_chosen(Search* search, int64_t at, int64_t* need) noexcept nogil:
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


cdef void _count_held(Search* search) noexcept nogil:
    """Count by node the GPUs of running jobs that have no place yet; none has had its turn."""
    cdef Draft* before = search.network.before
    cdef int64_t number, at
    for number in range(before.used[0]):
        at = before.node_parts[number].at
        if before.movable[at] and search.draft.first[at] < 0:
            search.network.awaits[at] = True
            search.network.held_here[before.node_parts[number].node] += before.node_parts[number].gpus


cdef void _count_free(Search* search, int64_t node) noexcept nogil:
    """Count the GPUs that the draft leaves on a node now, in place of those that it left there before."""
    cdef Network* network = search.network
    cdef int64_t now = max(free_on(search.draft, node)[0], <int64_t> 0)
    network.counts[network.free_here[node]] -= 1
    network.free_gpus += now - network.free_here[node]
    network.free_here[node] = now
    if now >= <int64_t> network.counts.size():
        network.counts.resize(now + 1)
    network.counts[now] += 1
    network.most_free = max(network.most_free, now)
    while network.most_free > 0 and network.counts[network.most_free] == 0:
        network.most_free -= 1


cdef bint _may_share_machine(Search* search, int64_t at) noexcept nogil:
    """Whether a job goes fast enough on one machine."""
    cdef FormsOfGang forms = forms_of(search.gangs, at)
    return forms.speeds[form_on_machine(forms, MACHINE)] >= search.network.enough * forms.speeds[0]


cdef bint _place_on_form(Search* search, int64_t at) noexcept nogil:
    """Place a job with its demand on the fastest form that has room; whether it has a place.

    Where it ran it stays, if it has room there and no form with room is faster.
    """
    cdef Network* network = search.network
    cdef Gangs* gangs = search.gangs
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef FormsOfGang forms = forms_of(gangs, at)
    cdef int64_t number, part = network.before.first[at], node, own = -1
    cdef Room* room
    if part >= 0:
        own = form_of(network.before, gangs, at, forms)
        while part >= 0 and network.awaits[at]:
            node = network.before.node_parts[part].node
            network.held_here[node] -= network.before.node_parts[part].gpus
            network.index.changed.push_back(node)
            part = network.before.node_parts[part].next
        network.awaits[at] = False
    if network.free_gpus < gangs.gpus[at]:
        return False
    room = room_of(&network.index, search.draft, gangs, at, best, network.held_here)
    for number in range(forms.count):
        if forms.kinds[3 * number] < 0 or forms.speeds[number] < network.enough * forms.speeds[0]:
            return False
        if own >= 0 and forms.speeds[own] >= forms.speeds[number] * (1 - _EPSILON) and _stay(search, at, best, room):
            return True
        if _find_form(search, at, &forms.kinds[3 * number], room):
            _place_on_chosen(search, at, best)
            return True
    return False


cdef bint _join_on_form(Search* search, int64_t at) noexcept nogil:
    """Place a job on the fastest form where the jobs make room for it and all gain; whether it has a place."""
    cdef FormsOfGang forms = forms_of(search.gangs, at)
    cdef Network* network = search.network
    cdef Room* room = room_of(&network.index, search.draft, search.gangs, at, NULL, network.held_here)
    cdef int64_t number
    for number in range(forms.count):
        if forms.kinds[3 * number] < 0 or forms.speeds[number] < network.enough * forms.speeds[0]:
            return False
        if _find_form(search, at, &forms.kinds[3 * number], room):
            if _join_nodes(search, at):
                return True
    return False


cdef bint _find_form(Search* search, int64_t at, int64_t* kind, Room* room) noexcept nogil:
    """Choose nodes for a job on a place of this form; whether there is one.

    All nodes are looked at where the job may not be on some of them, and for the forms that are not of whole machines.
    """
    cdef Network* network = search.network
    cdef Chosen* chosen = search.chosen
    cdef int64_t gpus = search.gangs.gpus[at], node
    cdef int64_t* take = network.work.scratch.take
    if kind[0] <= _EVENLY and gpus // kind[1] > network.most_free:
        return False
    if room.total < gpus or (kind[0] == _IN_RACK and most_in_a_rack(room) < gpus):
        return False
    if kind[0] < _EVENLY and search.gangs.constraint[at] == 0:
        return find_machine(&network.index, room, &network.books, gpus, kind[0] == _IN_ISLAND, chosen)
    if kind[0] == _EVENLY and search.gangs.constraint[at] == 0:
        return find_evenly(&network.index, room, &network.books, gpus, kind, chosen)
    show_room(room, &network.books)
    if not find_form(
        &network.books,
        gpus,
        allowed_nodes(search.gangs, at),
        kind,
        network.nothing,
        network.held_here,
        &network.work,
    ):
        return False
    forget_chosen(chosen)
    for node in range(search.gangs.nodes):
        if take[node] > 0:
            chosen.gpus[node] = take[node]
            chosen.nodes.push_back(node)
    return True


cdef bint _stay(Search* search, int64_t at, int64_t* need, Room* room) noexcept nogil:
    """Place a job where it ran, with a need, if it has room there; whether it has."""
    cdef Draft* before = search.network.before
    cdef int64_t number = before.first[at]
    cdef NodePart* part
    while number >= 0:
        part = &before.node_parts[number]
        if room.fit[part.node] < part.gpus:
            return False
        number = part.next
    number = before.first[at]
    while number >= 0:
        part = &before.node_parts[number]
        set_amounts(
            search.draft,
            add_part(search.draft, at, part.node, part.gpus),
            need_on(search.gangs, need, part.node),
        )
        number = part.next
    return True


cdef bint _join_nodes(Search* search, int64_t at) noexcept nogil:
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
                gain -= gangs.weight[other] * _counted_speed(search, other)
                set_amounts(draft, number, need_on(gangs, need_of(gangs, gangs.demands.fair, other), node))
            number = draft.node_parts[number].next_here
        room = room and fits(draft, node, chosen.gpus[node], need_on(gangs, fair, node))
    if room:
        _place_on_chosen(search, at, fair)
        for place in range(chosen.nodes.size()):
            divide_node(draft, gangs, chosen.nodes[place])
        raise_gang(draft, gangs, at)
        gain += gangs.weight[at] * _counted_speed(search, at)
        for i in range(numbers.size()):
            gain += gangs.weight[numbers[i]] * _counted_speed(search, numbers[i])
        if gain > _EPSILON:
            return True
        remove_job(draft, at)
    for i in range(numbers.size()):
        set_amounts(draft, draft.first[numbers[i]], amounts.data() + i * draft.resources)
    return False
