"""Jobs put on nodes one after the other where the worth of all gains most, compiled; see `joint`.

The worth of a node is the speed of its jobs, each times its weight. A job may take the place of jobs that are worth
less.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, floats, ints
from muster.cluster.ledger_core cimport SLOTS, Node, books_of
from muster.schedulers.allocation.draft_core cimport Draft, draft_of
from muster.schedulers.allocation.gangs_core cimport (
    Gangs,
    best_speed_on,
    gangs_of,
    may_be_whole,
    need_of,
    next_speed,
    place_whole,
)
from muster.schedulers.allocation.worth_core cimport ForRunning, for_running_of
from muster.schedulers.joint.form_index cimport begin_index, forget_chosen
from muster.schedulers.joint.form_places cimport (
    count_free,
    count_held,
    join_on_form,
    may_share_machine,
    place_on_form,
)
from muster.schedulers.joint.free_nodes cimport Chosen, FreeNodes, list_nodes, tightest_node, update_node
from muster.schedulers.joint.node_gains cimport Trial, begin_guesses, best_node, forget_node, take_place
from muster.schedulers.joint.search cimport Guesses, Network, OnNode, Search
from muster.schedulers.joint.several_nodes cimport place_apart, place_on_fewest
from muster.schedulers.placement.delay_scheduling cimport workspace_for

cdef int64_t _REMEMBERED = 64  # jobs that gained nothing anywhere, beside which others are compared

# That a job of a class gained nothing anywhere: after how many changes, on how many GPUs (gangs larger than any machine
# are of one class), under which constraint, what it counted.
cdef struct Refused:
    int64_t at_change
    int64_t gpus
    int64_t nodes
    int64_t constraint
    double weight


def place_jointly(draft, gangs, order, cost, running, splits_freely):
    """Place the jobs of `order` that have no place, each where the worth of all gains most, if it gains at all.

    A job whose place is taken comes once more at the end.

    `splits_freely`: several nodes are as good as one. If all are of a kind, a gang takes what is free on several before
    jobs leave one for it; else a gang over several first looks on those that make it fast.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef ForRunning counts = for_running_of(running)
    cdef Search search = Search(&plan, &jobs, floats(cost).at, &counts, NULL, NULL, NULL, NULL, NULL, False, False)
    search.apart_first = splits_freely and jobs.kind_count == 1
    search.fast_first = splits_freely and jobs.kind_count > 1 and not jobs.even
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
    cdef Search search = Search(&plan, &jobs, floats(cost).at, &counts, &network, NULL, NULL, NULL, NULL, False, False)
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
        count_free(&search, node)
    for network.enough in enough:
        held.assign(jobs.nodes, 0)
        network.awaits.assign(jobs.jobs, False)
        network.held_here = held.data()
        count_held(&search)
        begin_index(&network.index, &jobs, network.work.rack_count, network.held_here)
        _place_all(&search, ints(order))


cdef void _place_all(Search* search, Ints order) except *:
    """Place the jobs of an order that have no place.

    One whose place is taken comes once more at the end; then come all that have none and find a node with room.
    """
    cdef Draft* plan = search.draft
    cdef Gangs* jobs = search.gangs
    cdef vector[int64_t] queue
    cdef vector[bint] lost
    cdef FreeNodes free
    cdef Chosen chosen
    cdef Guesses guesses
    cdef vector[OnNode] on_node
    cdef vector[Refused] refused
    cdef vector[int64_t] in_vain
    cdef int64_t* numbers = order.at
    cdef int64_t i, at, changes = 0
    cdef size_t place = 0
    cdef bint again = False
    cdef Refused* known
    chosen.gpus.assign(jobs.nodes, 0)
    chosen.at_least = 0.0
    if search.network == NULL:
        list_nodes(&free, plan)
    begin_guesses(&guesses, jobs)
    on_node.resize(jobs.nodes)
    search.free, search.chosen, search.guesses, search.on_node = &free, &chosen, &guesses, on_node.data()
    lost.assign(jobs.jobs, False)
    refused.assign(jobs.class_count, Refused(-1, 0, 0, 0, 0.0))
    for i in range(order.size):
        queue.push_back(numbers[i])
    while place < queue.size() or (search.network == NULL and not again and <int64_t> queue.size() > order.size):
        if place == queue.size():
            again = True
            for i in range(order.size):
                queue.push_back(numbers[i])
        at = queue[place]
        place += 1
        if not plan.movable[at] or plan.first[at] >= 0 or (again and not _has_free_node(search, at)):
            continue
        known = &refused[jobs.classes[at]]
        if (
            known.at_change == changes
            and known.gpus == jobs.gpus[at]
            and known.nodes == jobs.exact_nodes[at]
            and known.constraint == jobs.constraint[at]
            and jobs.weight[at] <= known.weight
        ):
            continue
        if search.network == NULL and _asks_for_more(jobs, at, in_vain):
            continue
        if _place(search, at, queue, lost):
            changes += 1
            in_vain.clear()
            _note_changes(search, at)
        else:
            if _has_one_choice(jobs, at) and <int64_t> in_vain.size() < _REMEMBERED:
                in_vain.push_back(at)
            known[0] = Refused(
                changes, jobs.gpus[at], jobs.exact_nodes[at], jobs.constraint[at], jobs.weight[at]
            )


cdef bint _has_free_node(Search* search, int64_t at) noexcept nogil:
    """Whether a node has the least that a job needs."""
    cdef Gangs* gangs = search.gangs
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    return tightest_node(search.free, search.draft, gangs, at, gangs.gpus[at], fair, NULL) >= 0


cdef bint _asks_for_more(Gangs* jobs, int64_t at, vector[int64_t]& in_vain) noexcept nogil:
    """Whether a job asks for no less than one of those that gained nothing anywhere, and counts no more.

    Both have one choice of amounts alone, as jobs have whose owners state them and of which no model is known.
    """
    cdef int64_t other, i, needs = jobs.kind_count * jobs.resources
    cdef int64_t* need = need_of(jobs, jobs.demands.fair, at)
    cdef int64_t* less
    cdef size_t place
    if in_vain.empty() or not _has_one_choice(jobs, at):
        return False
    for place in range(in_vain.size()):
        other = in_vain[place]
        if (
            jobs.gpus[at] != jobs.gpus[other]
            or jobs.weight[at] > jobs.weight[other]
            or jobs.constraint[at] != jobs.constraint[other]
            or jobs.exact_nodes[at] != jobs.exact_nodes[other]
            or jobs.preferred[at] != jobs.preferred[other]
        ):
            continue
        less, i = need_of(jobs, jobs.demands.fair, other), 0
        while i < needs and need[i] >= less[i]:
            i += 1
        if i == needs:
            return True
    return False


cdef bint _has_one_choice(Gangs* jobs, int64_t at) noexcept nogil:
    """Whether a job has one choice of amounts on each kind of node, at the speed of its reference."""
    cdef int64_t first = jobs.classes[at] * jobs.kind_count, kind
    for kind in range(jobs.kind_count):
        if jobs.demands.first_choice[first + kind + 1] - jobs.demands.first_choice[first + kind] != 1:
            return False
        if best_speed_on(jobs, at, kind) != 1.0:
            return False
    return True


cdef void _note_changes(Search* search, int64_t at) noexcept nogil:
    """Note that the nodes of a job have changed, which has just been placed there."""
    cdef int64_t number = search.draft.first[at], node
    while number >= 0:
        node = search.draft.node_parts[number].node
        if search.network == NULL:
            update_node(search.free, search.draft, node)
        else:
            count_free(search, node)
            search.network.index.changed.push_back(node)
        forget_node(search, node)
        number = search.draft.node_parts[number].next


cdef bint _place(Search* search, int64_t at, vector[int64_t]& queue, vector[bint]& lost) noexcept nogil:
    """Place a job where that gains most; whether it has a place.

    Of free nodes it takes those first that fewer others may use.
    """
    cdef Gangs* gangs = search.gangs
    cdef int64_t own = gangs.constraint[at]
    cdef bint has_place = False
    cdef Trial found
    if not may_be_whole(gangs, at):
        return place_apart(search, at)
    if gangs.preferred[at] >= 0:
        gangs.constraint[at] = gangs.preferred[at]
        has_place = _place_on_free(search, at, True)
        gangs.constraint[at] = own
    if has_place or _place_on_free(search, at, False):
        return True
    if search.network != NULL and search.network.free_gpus < gangs.gpus[at]:
        return False
    if _fits_some_machine(gangs, at) and (search.network == NULL or may_share_machine(search, at)):
        found = best_node(search, at)
        if found.node >= 0:
            take_place(search, at, found, queue, lost)
            return True
    return place_apart(search, at) if search.network == NULL else join_on_form(search, at)


cdef bint _place_on_free(Search* search, int64_t at, bint only_fastest) noexcept nogil:
    """Place a job with its whole demand on nodes that have it free; whether it has a place.

    `only_fastest`: on a network, or on nodes of several kinds, only where it is as fast as it can be.
    """
    cdef Draft* draft = search.draft
    cdef Gangs* gangs = search.gangs
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef int64_t node = -1
    if search.network != NULL:
        return place_on_form(search, at, only_fastest)
    if gangs.kind_count == 1:
        node = tightest_node(search.free, draft, gangs, at, gangs.gpus[at], best, NULL)
    elif only_fastest:
        forget_chosen(search.chosen)
        search.chosen.at_least = next_speed(gangs, at, INFINITY)
        node = tightest_node(search.free, draft, gangs, at, gangs.gpus[at], best, search.chosen)
        search.chosen.at_least = 0.0
    if node >= 0:
        place_whole(draft, gangs, at, node, best)
        return True
    return search.apart_first and place_on_fewest(search, at) > 0


cdef bint _fits_some_machine(Gangs* gangs, int64_t at) noexcept nogil:
    """Whether a machine has as many GPUs as a job."""
    cdef int64_t kind
    for kind in range(gangs.kind_count):
        if gangs.kinds[kind].gpus >= gangs.gpus[at]:
            return True
    return False
