"""Placing jobs with their fair share at least, taken from neighbours that have more than theirs; see `fair_share`."""

from libc.string cimport memset
from libcpp.vector cimport vector

from muster.cluster.arrays cimport ints
from muster.cluster.ledger_core cimport SLOTS, Books, books_of, count_bits
from muster.schedulers.allocation.draft_core cimport (
    NodePart,
    add_rows,
    draft_of,
    fits,
    floor_of,
    free_on,
    remove_last,
)
from muster.schedulers.allocation.gangs_core cimport (
    gangs_of,
    has_room,
    need_of,
    need_on,
    place_gang,
    place_whole,
    set_level,
)
from muster.schedulers.allocation.search_core cimport BestFits, best_fits, fewest_nodes


cdef bint place_by_best_fit(Draft* draft, Gangs* gangs, int64_t at, int64_t* take) noexcept nogil:
    """Place a job with its demand, else its fair share, else what neighbours hold above theirs; whether it fits.

    A request that the fewest nodes could not hold even if they were empty is divided over more of them.
    """
    cdef int64_t* best = need_of(gangs, gangs.demands.best, at)
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    cdef BestFits found = best_fits(draft, gangs, at, best, fair)
    cdef int64_t node, room
    if found.with_best >= 0:
        place_whole(draft, gangs, at, found.with_best, best)
        return True
    if found.with_fair >= 0:
        place_whole(draft, gangs, at, found.with_fair, fair)
        return True
    memset(take, 0, gangs.nodes * sizeof(int64_t))
    if found.with_gpus >= 0:
        take[found.with_gpus] = gangs.gpus[at]
    else:
        room = fewest_nodes(draft, gangs, at, NULL, take)
        if room == 0:
            return False
        if fewest_nodes(draft, gangs, at, best, take) == room:
            place_gang(draft, gangs, at, best, take)
            return True
        if fewest_nodes(draft, gangs, at, fair, take) == room:
            place_gang(draft, gangs, at, fair, take)
            return True
        fewest_nodes(draft, gangs, at, NULL, take)
    for node in range(gangs.nodes):
        if take[node] > 0:
            _reclaim(draft, gangs, node, take[node], need_on(gangs, fair, node))
            if not fits(draft, node, take[node], need_on(gangs, fair, node)):
                if not _too_large(gangs, node, take[node], need_on(gangs, fair, node)):
                    return False
                if fewest_nodes(draft, gangs, at, fair, take) == 0:
                    return False
                break
    place_gang(draft, gangs, at, fair, take)
    return True


cdef bint _too_large(Gangs* gangs, int64_t node, int64_t gpus, int64_t* need) noexcept nogil:
    """Whether an empty node could not give so many GPUs this beside them."""
    cdef int64_t resource
    for resource in range(1, gangs.resources):
        if need[resource] > 0 and gangs.kinds[gangs.kind_of_node[node]].capacity[resource] < gpus * need[resource]:
            return True
    return False


cdef bint take_fair_share(Draft* draft, Gangs* gangs, int64_t at) noexcept nogil:
    """Give a job that has no more than its request its fair share, taken from its neighbours if need be.

    Returns whether it fits.
    """
    cdef int64_t* fair = need_of(gangs, gangs.demands.fair, at)
    cdef int64_t number = draft.first[at], resource
    cdef int64_t more[SLOTS]
    cdef NodePart* part
    while number >= 0:
        part = &draft.node_parts[number]
        for resource in range(1, draft.resources):
            more[resource] = need_on(gangs, fair, part.node)[resource] - floor_of(part.amount[resource], part.gpus)
        _reclaim(draft, gangs, part.node, part.gpus, more)
        number = part.next
    if not has_room(draft, gangs, at, fair):
        return False
    set_level(draft, gangs, at, fair)
    return True


cdef void _reclaim(Draft* draft, Gangs* gangs, int64_t node, int64_t gpus, int64_t* need) noexcept nogil:
    """Lower jobs here that hold more than their fair share, most above first, while it is needed."""
    cdef int64_t victim, number
    cdef double most, above
    while not fits(draft, node, gpus, need):
        victim, most = -1, 0.0
        number = draft.first_here[node]
        while number >= 0:
            above = _above_fair(draft, gangs, number, gpus, need)
            if above > most:
                victim, most = number, above
            number = draft.node_parts[number].next_here
        if victim < 0:
            return
        number = draft.node_parts[victim].at
        set_level(draft, gangs, number, need_of(gangs, gangs.demands.fair, number))


cdef double _above_fair(Draft* draft, Gangs* gangs, int64_t number, int64_t gpus, int64_t* need) noexcept nogil:
    """What a node part holds above its fair share of what is short, in GPUs' shares."""
    cdef NodePart* part = &draft.node_parts[number]
    cdef int64_t* fair = need_on(gangs, need_of(gangs, gangs.demands.fair, part.at), part.node)
    cdef int64_t* share = gangs.kinds[gangs.kind_of_node[part.node]].share
    cdef int64_t* free = free_on(draft, part.node)
    cdef int64_t resource, excess
    cdef double above = 0.0
    for resource in range(1, draft.resources):
        if free[resource] < gpus * need[resource]:
            excess = part.amount[resource] - part.gpus * fair[resource]
            above += <double> max(excess, <int64_t> 0) / max(share[resource], <int64_t> 1)
    return above


def keep_rows(books, index, draft, gangs, ranked):
    """Give running jobs that lost their place to no other job their GPUs back, with their fair share, by rank."""
    cdef Books here = books_of(books)
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef int64_t* numbers = ints(index).at
    cdef int64_t at, head, before
    for at in ranked.tolist():
        head = here.heads[numbers[at]]
        if head < 0 or not plan.movable[at] or plan.first[at] >= 0 or not _rows_are_free(&here, head, &plan):
            continue
        before = plan.used[0]
        add_rows(&plan, at, &here, head)
        if not take_fair_share(&plan, &jobs, at):
            while plan.used[0] > before:
                remove_last(&plan)


cdef bint _rows_are_free(Books* books, int64_t row, Draft* draft) noexcept nogil:
    """Whether the draft leaves as many GPUs as a chain of rows holds, on each of its nodes."""
    while row >= 0:
        if free_on(draft, books.rows[row].node)[0] < count_bits(books.rows[row].mask):
            return False
        row = books.rows[row].next
    return True


def place_missing(draft, gangs, served):
    """Place those of the served jobs by best fit that may move and have no place, as far as they fit."""
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef vector[int64_t] take
    cdef int64_t at
    take.resize(jobs.nodes)
    for at in served.tolist():
        if plan.movable[at] and plan.first[at] < 0:
            place_by_best_fit(&plan, &jobs, at, take.data())
