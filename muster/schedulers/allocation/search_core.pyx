"""Choosing nodes for one job on a draft, compiled."""

from libc.stdint cimport uint8_t
from libc.string cimport memset
from libcpp.vector cimport vector

from muster.cluster.even_core cimport FULLEST, take_even, take_exactly
from muster.schedulers.allocation.draft_core cimport fits, floor_of, free_on, tighter
from muster.schedulers.allocation.gangs_core cimport allowed_nodes, may_be_whole, need_on


cdef int64_t gpus_that_fit(Draft* draft, int64_t node, int64_t* amounts) noexcept nogil:
    """How many free GPUs of a node can have this beside them; NULL: nothing."""
    cdef int64_t* free = free_on(draft, node)
    cdef int64_t resource, fit = free[0]
    if amounts == NULL:
        return fit
    for resource in range(1, draft.resources):
        if amounts[resource] > 0 and free[resource] < fit * amounts[resource]:
            fit = floor_of(free[resource], amounts[resource])
    return fit


cdef bint pick(
    Draft* draft, Gangs* gangs, int64_t at, int64_t* need, bint consolidating, int64_t* take
) noexcept nogil:
    """Choose nodes for a job as the Synergy authors' program does; `take` gets the GPUs on each.

    Returns whether there is a place.
    """
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef int64_t node, left = gangs.gpus[at], best = -1
    if gangs.even or gangs.exact_nodes[at] > 0:
        return fewest_nodes(draft, gangs, at, need, take) > 0
    memset(take, 0, gangs.nodes * sizeof(int64_t))
    if not consolidating:
        for node in range(gangs.nodes):
            if left > 0 and allowed[node] and free_on(draft, node)[0] > 0:
                take[node] = min(left, gpus_that_fit(draft, node, need_on(gangs, need, node)))
                left -= take[node]
        return left == 0
    if gangs.gpus[at] > 1:
        for node in range(gangs.nodes):
            if (
                allowed[node]
                and free_on(draft, node)[0] >= gangs.gpus[at]
                and (best < 0 or free_on(draft, node)[0] < free_on(draft, best)[0])
                and fits(draft, node, gangs.gpus[at], need_on(gangs, need, node))
            ):
                best = node
    if best >= 0:
        take[best] = gangs.gpus[at]
        return True
    return _fullest_first(draft, gangs, at, need, take)


cdef bint _fullest_first(Draft* draft, Gangs* gangs, int64_t at, int64_t* need, int64_t* take) noexcept nogil:
    """Take one GPU at a time from the node with the fewest free GPUs; a node that cannot give one is left."""
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef int64_t node, best, gpus = gangs.gpus[at]
    cdef vector[int64_t] room
    room.assign(gangs.nodes, -1)
    for node in range(gangs.nodes):
        if allowed[node] and free_on(draft, node)[0] > 0:
            room[node] = free_on(draft, node)[0]
    while gpus > 0:
        best = -1
        for node in range(gangs.nodes):
            if room[node] > 0 and (best < 0 or room[node] < room[best]):
                best = node
        if best < 0:
            return False
        if fits(draft, best, take[best] + 1, need_on(gangs, need, best)):
            take[best] += 1
            room[best] -= 1
            gpus -= 1
        else:
            room[best] = -1
    return True


cdef BestFits best_fits(Draft* draft, Gangs* gangs, int64_t at, int64_t* best, int64_t* fair) noexcept nogil:
    """The best-fitting node for the whole job with its demand, with its fair share, with its GPUs alone."""
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef int64_t node, gpus = gangs.gpus[at], home = draft.home[at]
    cdef BestFits found
    found.with_best = found.with_fair = found.with_gpus = -1
    for node in range(gangs.nodes if may_be_whole(gangs, at) else 0):
        if free_on(draft, node)[0] < gpus or not allowed[node]:
            continue
        if found.with_best >= 0 and not tighter(draft, node, found.with_best, home):
            continue
        if fits(draft, node, gpus, need_on(gangs, best, node)):
            found.with_best = node
        if found.with_best >= 0:
            continue
        if found.with_fair < 0 or tighter(draft, node, found.with_fair, home):
            if fits(draft, node, gpus, need_on(gangs, fair, node)):
                found.with_fair = node
            if found.with_gpus < 0 or tighter(draft, node, found.with_gpus, home):
                found.with_gpus = node
    return found


cdef int64_t fewest_nodes(Draft* draft, Gangs* gangs, int64_t at, int64_t* need, int64_t* take) noexcept nogil:
    """Choose as few nodes as possible for a need, the last by best fit; how many, 0 without a place.

    A job that has to be on a number of nodes is on so many. Best fit is the node with the fewest free GPUs, then CPUs,
    then memory; of equals the job's own, then the first. `take` gets the GPUs on each. Without a need (NULL) GPUs alone
    count.
    """
    cdef uint8_t* allowed = allowed_nodes(gangs, at)
    cdef int64_t node, total = 0
    cdef int64_t* here
    cdef vector[int64_t] fit
    memset(take, 0, gangs.nodes * sizeof(int64_t))
    fit.assign(gangs.nodes, 0)
    for node in range(gangs.nodes):
        if allowed[node] and free_on(draft, node)[0] > 0:
            here = NULL
            if need != NULL:
                here = need_on(gangs, need, node)
            fit[node] = gpus_that_fit(draft, node, here)
            total += fit[node]
    if total < gangs.gpus[at]:
        return 0
    if gangs.exact_nodes[at] > 0:
        return take_exactly(fit.data(), gangs.nodes, gangs.gpus[at], gangs.exact_nodes[at], gangs.even, take)
    if gangs.even:
        return take_even(fit.data(), gangs.nodes, gangs.gpus[at], FULLEST, take)
    return _take_fewest(draft, draft.home[at], gangs.gpus[at], fit.data(), take)


cdef int64_t _take_fewest(Draft* draft, int64_t home, int64_t gpus, int64_t* fit, int64_t* take) noexcept nogil:
    """Take the emptiest nodes and the tightest that takes the rest; how many."""
    cdef int64_t node, most, tightest, chosen, taken = 0
    while gpus > 0 and taken < draft.nodes:
        most, tightest = -1, -1
        for node in range(draft.nodes):
            if take[node] == 0 and fit[node] > 0:
                if most < 0 or fit[node] > fit[most]:
                    most = node
                if fit[node] >= gpus and (tightest < 0 or tighter(draft, node, tightest, home)):
                    tightest = node
        chosen = tightest if tightest >= 0 else most
        take[chosen] = min(fit[chosen], gpus)
        gpus -= take[chosen]
        taken += 1
    return taken
