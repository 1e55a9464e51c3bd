"""Nodes by what a draft leaves free on them, so that a job's place is found without a look at all of them.

The places are those that `search_core.best_fits` and `search_core.fewest_nodes` find by looking at every node.
"""

from cython.operator cimport dereference, preincrement
from libc.stdint cimport uint8_t
from libcpp.algorithm cimport sort

from muster.schedulers.allocation.draft_core cimport free_on
from muster.schedulers.allocation.gangs_core cimport allowed_nodes, makes_fast, need_on
from muster.schedulers.allocation.search_core cimport fewest_nodes as fewest_of_all
from muster.schedulers.allocation.search_core cimport gpus_that_fit

cdef extern from * nogil:
    int64_t lowest_bit "__builtin_ctzll"(uint64_t bits)

cdef int64_t _LEAST = -(1 << 62)


cdef void list_nodes(FreeNodes* free, Draft* draft) except *:
    """List all nodes of a draft."""
    cdef int64_t node
    free.free_gpus = 0
    free.gpus.assign(draft.nodes, -1)
    free.amounts.resize(draft.nodes)
    for node in range(draft.nodes):
        update_node(free, draft, node)


cdef void update_node(FreeNodes* free, Draft* draft, int64_t node) noexcept nogil:
    """List a node by what it has free now; one without free GPUs is in no list."""
    cdef int64_t* left = free_on(draft, node)
    cdef int64_t gpus = max(left[0], <int64_t> 0), before = free.gpus[node]
    cdef Amounts now
    now.first.first, now.first.second, now.second = left[1], left[2], node
    while <int64_t> free.counts.size() <= gpus:
        free.by_amounts.push_back(ordered_set[Amounts]())
        free.by_number.push_back(vector[uint64_t](draft.nodes // 64 + 1))
        free.counts.push_back(0)
    if before == gpus and now == free.amounts[node]:
        return
    if before > 0:
        free.by_amounts[before].erase(free.amounts[node])
        free.by_number[before][node // 64] &= ~(<uint64_t> 1 << (node % 64))
        free.counts[before] -= 1
        free.free_gpus -= before
    if gpus > 0:
        free.by_amounts[gpus].insert(now)
        free.by_number[gpus][node // 64] |= <uint64_t> 1 << (node % 64)
        free.counts[gpus] += 1
        free.free_gpus += gpus
    free.gpus[node], free.amounts[node] = gpus, now


cdef inline bint _is_open(Gangs* gangs, int64_t at, Chosen* chosen, int64_t node) noexcept nogil:
    """Whether a node is not chosen yet, and makes the job as fast as it has to be."""
    return chosen.gpus[node] == 0 and makes_fast(gangs, at, node, chosen.at_least)


cdef bint _may_take(
    Draft* draft, Gangs* gangs, int64_t at, int64_t node, int64_t gpus, int64_t* need, Chosen* chosen
) noexcept nogil:
    """Whether a job may have so many GPUs of a node, with a need beside them."""
    cdef int64_t* here = NULL
    if not allowed_nodes(gangs, at)[node] or (chosen != NULL and not _is_open(gangs, at, chosen, node)):
        return False
    if need != NULL:
        here = need_on(gangs, need, node)
    return gpus_that_fit(draft, node, here) >= gpus


cdef int64_t tightest_node(
    FreeNodes* free, Draft* draft, Gangs* gangs, int64_t at, int64_t gpus, int64_t* need, Chosen* chosen
) noexcept nogil:
    """The best-fitting node for so many GPUs with a need (NULL: nothing) beside those chosen; -1: there is none.

    It has the fewest free GPUs, then CPUs, then memory; of equals it is the job's own, then the first.
    """
    cdef int64_t number, node, kind, home = draft.home[at]
    cdef Amounts least
    cdef ordered_set[Amounts].iterator place
    least.first.first, least.first.second, least.second = _LEAST, _LEAST, -1
    if need != NULL:
        least.first.first = gpus * need[1]
        for kind in range(1, gangs.kind_count):
            least.first.first = min(least.first.first, gpus * need[kind * gangs.resources + 1])
        if least.first.first == 0:
            least.first.first = _LEAST
    for number in range(gpus, <int64_t> free.counts.size()):
        if free.counts[number] == 0:
            continue
        place = free.by_amounts[number].lower_bound(least)
        while place != free.by_amounts[number].end():
            node = dereference(place).second
            if _may_take(draft, gangs, at, node, gpus, need, chosen):
                if (
                    home >= 0
                    and free.gpus[home] == number
                    and free.amounts[home].first == free.amounts[node].first
                    and _may_take(draft, gangs, at, home, gpus, need, chosen)
                ):
                    return home
                return node
            preincrement(place)
    return -1


cdef int64_t _emptiest_node(
    FreeNodes* free, Draft* draft, Gangs* gangs, int64_t at, int64_t* need, Chosen* chosen, int64_t* most
) noexcept nogil:
    """The node with room for most GPUs beside those chosen, of equals the first; -1: there is none."""
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef int64_t number, node, fit, best = -1
    cdef int64_t* here = NULL
    cdef size_t word
    cdef uint64_t bits
    most[0] = 0
    for number in range(<int64_t> free.counts.size() - 1, 0, -1):
        if number < most[0]:
            break
        for word in range(free.by_number[number].size() if free.counts[number] else 0):
            bits = free.by_number[number][word]
            if best >= 0 and most[0] == number and <int64_t> word * 64 > best:
                break
            while bits:
                node = <int64_t> word * 64 + lowest_bit(bits)
                bits &= bits - 1
                if not allowed[node] or not _is_open(gangs, at, chosen, node):
                    continue
                if need != NULL:
                    here = need_on(gangs, need, node)
                fit = gpus_that_fit(draft, node, here)
                if fit > most[0] or (fit == most[0] and 0 < fit and node < best):
                    best, most[0] = node, fit
    return best


cdef int64_t fewest_nodes(
    FreeNodes* free, Draft* draft, Gangs* gangs, int64_t at, int64_t* need, Chosen* chosen
) noexcept nogil:
    """Choose as few nodes as possible for a job with a need, the last by best fit; how many, 0 without a place.

    Without a need (NULL) GPUs alone count.
    """
    cdef int64_t node, fit, left = gangs.gpus[at]
    cdef size_t i
    for i in range(chosen.nodes.size()):
        chosen.gpus[chosen.nodes[i]] = 0
    chosen.nodes.clear()
    if gangs.even or gangs.exact_nodes[at] > 0:
        return _fewest_of_all(draft, gangs, at, need, chosen)
    if free.free_gpus < left:
        return 0
    while left > 0:
        fit = left
        node = tightest_node(free, draft, gangs, at, left, need, chosen)
        if node < 0:
            node = _emptiest_node(free, draft, gangs, at, need, chosen, &fit)
        if node < 0:
            return 0
        chosen.nodes.push_back(node)
        chosen.gpus[node] = fit
        left -= fit
    sort(chosen.nodes.begin(), chosen.nodes.end())
    return chosen.nodes.size()


cdef int64_t _fewest_of_all(Draft* draft, Gangs* gangs, int64_t at, int64_t* need, Chosen* chosen) noexcept nogil:
    """Choose as few nodes as possible, or as many as the job has to be on, by a look at all of them."""
    cdef int64_t node, count = fewest_of_all(draft, gangs, at, need, chosen.gpus.data())
    for node in range(gangs.nodes if count > 0 else 0):
        if chosen.gpus[node] > 0:
            chosen.nodes.push_back(node)
    return count
