"""Prices of CPU, memory and storage at which one pooled machine would be just full, and what each job then wants.

At these prices every job names the point that is worth most to it.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libcpp.algorithm cimport stable_sort
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Ints, ints
from muster.cluster.ledger_core cimport SLOTS
from muster.schedulers.allocation.draft_core cimport Draft, draft_of
from muster.schedulers.allocation.gangs_core cimport Gangs, amount_per_gpu, choice_of, gangs_of

import numpy as np

from muster.cluster.resources import BUILT_IN_COUNT

cdef int64_t _BUILT_IN = BUILT_IN_COUNT
HALVINGS = 18
HIGHEST_PRICE = 8.0
cdef int64_t _HALVINGS = HALVINGS
cdef double _HIGHEST_PRICE = HIGHEST_PRICE
# A job is torn between two points if its choice changes with so small a part of the price.
cdef double _TORN = 1e-4

ctypedef pair[int64_t, int64_t] Rise

# What choices are valued by: the kind of node, its share of one GPU, and a price for each share.
cdef struct Prices:
    int64_t kind
    double share[SLOTS]
    double price[SLOTS]

# Of one price while it is searched for: the bounds, and how often it was compared.
cdef struct Search:
    double low
    double high
    int64_t judged


cdef double _worth(Gangs* gangs, int64_t choice, Prices* at) noexcept nogil:
    """The speed of a choice less its price, for each GPU."""
    cdef double worth = gangs.demands.choice_speed[choice]
    cdef int64_t* amount = choice_of(gangs, choice)
    cdef int64_t resource
    for resource in range(1, gangs.resources):
        worth -= at.price[resource] * amount[resource] / at.share[resource]
    return worth


cdef int64_t _worth_most(Gangs* gangs, int64_t number, Prices* at) noexcept nogil:
    """The choice of a class with the most speed left after its price (speed a GPU's share)."""
    cdef int64_t place = number * gangs.kind_count + at.kind, best = -1, choice
    cdef double worth, most = -INFINITY
    for choice in range(gangs.demands.first_choice[place], gangs.demands.first_choice[place + 1]):
        worth = _worth(gangs, choice, at)
        if worth > most + 1e-12:
            best, most = choice, worth
    return best


cdef int64_t _demand(Gangs* gangs, int64_t* count, Prices* at, int64_t resource) noexcept nogil:
    """What all jobs want of a resource, by their GPUs a class."""
    cdef int64_t total = 0, number
    for number in range(gangs.class_count):
        if count[number]:
            total += count[number] * choice_of(gangs, _worth_most(gangs, number, at))[resource]
    return total


cdef Prices _lowest_prices(Gangs* gangs, int64_t kind, int64_t* count, int64_t* pool) noexcept nogil:
    """The lowest prices at which the pool is not overdrawn, each by halving an interval.

    At each price of storage memory is priced again, and at each price of memory CPUs.
    """
    cdef Prices found
    cdef Search search[SLOTS]
    cdef int64_t share[SLOTS]
    cdef int64_t resource, lower
    cdef bint enough
    cdef Search* here
    amount_per_gpu(gangs, kind, share)
    found.kind = kind
    for resource in range(gangs.resources):
        found.share[resource], found.price[resource] = share[resource], 0.0
        search[resource].low, search[resource].high, search[resource].judged = 0.0, _HIGHEST_PRICE, 0
    resource = 1
    while resource < _BUILT_IN:
        here = &search[resource]
        enough = here.judged > _HALVINGS
        if not enough:
            enough = _demand(gangs, count, &found, resource) <= pool[resource]
            if here.judged > 0 or not enough:
                if enough:
                    here.high = found.price[resource]
                else:
                    here.low = found.price[resource]
                here.judged += 1
                found.price[resource] = (here.low + here.high) / 2
                if here.judged > _HALVINGS:
                    found.price[resource] = here.high
                for lower in range(1, resource):
                    found.price[lower] = 0.0
                    search[lower].low, search[lower].high, search[lower].judged = 0.0, _HIGHEST_PRICE, 0
                enough = False
        resource = resource + 1 if enough else 1
    return found


cdef Prices _scaled(Gangs* gangs, Prices prices, double scale) noexcept nogil:
    """The prices times a factor."""
    cdef int64_t resource
    for resource in range(gangs.resources):
        prices.price[resource] *= scale
    return prices


def lowest_prices(gangs, int64_t kind, count, pool):
    """The lowest prices at which a pool is not overdrawn by classes of so many GPUs; by resource, for a GPU's share."""
    cdef Gangs jobs = gangs_of(gangs)
    cdef Prices found = _lowest_prices(&jobs, kind, ints(count).at, ints(pool).at)
    return np.array([found.price[resource] for resource in range(jobs.resources)])


def targets(draft, gangs, served, int64_t kind):
    """What each served job would have on one pooled machine, a GPU, by place in `served` and resource.

    And how far the speed of all there may be below the best, as a part of it: what the prices prove.
    """
    cdef Draft plan = draft_of(draft)
    cdef Gangs jobs = gangs_of(gangs)
    cdef Ints order = ints(served)
    cdef vector[int64_t] count
    cdef int64_t pool[SLOTS]
    cdef int64_t i, number, gpus, modest, resource, place
    cdef double bound = 0.0, reached = 0.0
    cdef Prices prices, below, above
    wanted = np.empty((order.size, plan.resources), np.int64)
    cdef int64_t* wants = ints(wanted).at
    for resource in range(plan.resources):
        pool[resource] = 0
        for place in range(plan.nodes):
            pool[resource] += plan.free[place * plan.resources + resource]
        for place in range(plan.used[0]):
            pool[resource] += plan.node_parts[place].amount[resource]
    count.assign(jobs.class_count, 0)
    for i in range(order.size):
        count[jobs.classes[order.at[i]]] += jobs.gpus[order.at[i]]
    prices = _lowest_prices(&jobs, kind, count.data(), pool)
    for resource in range(1, plan.resources):
        bound += prices.price[resource] * pool[resource] / prices.share[resource]
    below, above = _scaled(&jobs, prices, 1 - _TORN), _scaled(&jobs, prices, 1 + _TORN)
    for i in range(order.size):
        number, gpus = jobs.classes[order.at[i]], jobs.gpus[order.at[i]]
        modest = _worth_most(&jobs, number, &above)
        reached += gpus * jobs.demands.choice_speed[modest]
        bound += gpus * _worth(&jobs, _worth_most(&jobs, number, &prices), &prices)
        for resource in range(plan.resources):
            wants[i * plan.resources + resource] = choice_of(&jobs, modest)[resource]
            pool[resource] -= gpus * wants[i * plan.resources + resource]
    reached += _give_larger_points(&jobs, order, &below, &above, pool, wants)
    return wanted, (max(0.0, 1 - reached / bound) if bound > 0 else 0.0)


cdef bint _more(const Rise& one, const Rise& other) noexcept nogil:
    return one.first > other.first


cdef double _give_larger_points(
    Gangs* gangs, Ints served, Prices* below, Prices* above, int64_t* pool, int64_t* wanted
) noexcept nogil:
    """Raise jobs that are torn between two points to the larger one while the pool lasts; the speed gained.

    First come those that want more memory for it: few do, and the CPUs left to the others are of use to many.
    """
    cdef vector[int64_t] more
    cdef vector[double] faster
    cdef vector[Rise] order
    cdef int64_t i, eager, modest, resource, gpus, number, width = gangs.resources
    cdef size_t place
    cdef double reached = 0.0
    cdef bint fits
    more.resize(served.size * width)
    for i in range(served.size):
        number, gpus = gangs.classes[served.at[i]], gangs.gpus[served.at[i]]
        eager, modest = _worth_most(gangs, number, below), _worth_most(gangs, number, above)
        for resource in range(width):
            more[i * width + resource] = choice_of(gangs, eager)[resource] - wanted[i * width + resource]
        faster.push_back(gpus * (gangs.demands.choice_speed[eager] - gangs.demands.choice_speed[modest]))
        order.push_back(Rise(more[i * width + 2], i))
    stable_sort(order.begin(), order.end(), _more)
    for place in range(order.size()):
        i = order[place].second
        gpus, fits = gangs.gpus[served.at[i]], True
        for resource in range(1, width):
            fits = fits and gpus * more[i * width + resource] <= pool[resource]
        if fits:
            for resource in range(width):
                pool[resource] -= gpus * more[i * width + resource]
                wanted[i * width + resource] += more[i * width + resource]
            reached += faster[i]
    return reached
