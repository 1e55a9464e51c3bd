"""Who gets how much of a shared uplink: max-min fairness by progressive filling.

Every job is one flow with a demand, on all the uplinks it crosses; its rate is that on its busiest uplink, and each
other one carries a fixed part of it. The rates rise for all flows alike; a flow stops rising at its demand, or when an
uplink of its own is full.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libcpp.algorithm cimport stable_sort
from libcpp.vector cimport vector

from muster.cluster.arrays cimport Floats, Ints, floats, ints

import numpy as np


# The links that each flow crosses: flow j those of the places `first[j]` to `first[j + 1] - 1`.
cdef struct Crossings:
    int64_t flows
    int64_t* first
    int64_t* links
    double* parts  # of the flow's rate, which each link carries


# How far the progressive filling is; by flow, then by link.
cdef struct Filling:
    double* rate  # its demand, or what it has settled at
    uint8_t* rising
    double* left  # capacity that no settled flow uses
    int64_t* risers  # rising flows
    double* load  # of the rising flows for each unit of their common rate


cdef struct Modest:
    double demand
    int64_t flow


cdef bint _more_modest(const Modest& one, const Modest& other) noexcept nogil:
    return one.demand < other.demand


cdef Crossings _crossings(Ints first, Ints links, Floats parts) noexcept nogil:
    cdef Crossings crossings
    crossings.flows, crossings.first = first.size - 1, first.at
    crossings.links, crossings.parts = links.at, parts.at
    return crossings


cdef void _begin(Crossings* crossings, Filling* filling) noexcept nogil:
    """All flows that cross a link rise from 0; the others have their demand."""
    cdef int64_t flow, at, link
    for flow in range(crossings.flows):
        filling.rising[flow] = crossings.first[flow + 1] > crossings.first[flow]
        for at in range(crossings.first[flow], crossings.first[flow + 1]):
            link = crossings.links[at]
            filling.risers[link] += 1
            filling.load[link] += crossings.parts[at]


cdef int64_t _next_full_link(Filling* filling, vector[int64_t]& used, double* level) noexcept nogil:
    """The link that is full at the lowest common rate, and that rate, if it is below `level`; else -1."""
    cdef int64_t link, full = -1
    cdef size_t at
    for at in range(used.size()):
        link = used[at]
        if filling.risers[link] > 0 and filling.left[link] < level[0] * filling.load[link]:
            level[0] = max(filling.left[link], 0.0) / filling.load[link]
            full = link
    return full


cdef void _settle(int64_t flow, double level, Filling* filling, Crossings* crossings) noexcept nogil:
    """The flow keeps `level` for good; its links have its part of that less for the flows that still rise."""
    cdef int64_t at, link
    filling.rate[flow] = level
    filling.rising[flow] = False
    for at in range(crossings.first[flow], crossings.first[flow + 1]):
        link = crossings.links[at]
        filling.left[link] -= level * crossings.parts[at]
        filling.load[link] -= crossings.parts[at]
        filling.risers[link] -= 1


cdef void _list_by_link(
    Crossings* crossings, int64_t count, vector[int64_t]& link_first, vector[int64_t]& flows
) noexcept nogil:
    """The same crossings, listed by link."""
    cdef vector[int64_t] fill
    cdef int64_t at, link, flow, crossed = crossings.first[crossings.flows]
    link_first.assign(count + 1, 0)
    for at in range(crossed):
        link_first[crossings.links[at] + 1] += 1
    for link in range(count):
        link_first[link + 1] += link_first[link]
    fill = link_first
    flows.resize(crossed)
    for flow in range(crossings.flows):
        for at in range(crossings.first[flow], crossings.first[flow + 1]):
            link = crossings.links[at]
            flows[fill[link]] = flow
            fill[link] += 1


cdef void _fill(Crossings* crossings, Filling* filling, int64_t links) noexcept nogil:
    """Let the flows rise until each has settled."""
    cdef vector[int64_t] link_first, flows, used
    cdef vector[Modest] modest_first
    cdef Modest modest
    cdef int64_t at, link, full
    cdef size_t turn
    cdef double level
    _list_by_link(crossings, links, link_first, flows)
    for link in range(links):
        if filling.risers[link] > 0:
            used.push_back(link)
    for at in range(crossings.flows):
        modest.demand, modest.flow = filling.rate[at], at
        modest_first.push_back(modest)
    stable_sort(modest_first.begin(), modest_first.end(), _more_modest)
    turn = 0
    while turn < modest_first.size():
        modest = modest_first[turn]
        if not filling.rising[modest.flow]:
            turn += 1
            continue
        level = modest.demand
        full = _next_full_link(filling, used, &level)
        if full < 0:
            _settle(modest.flow, level, filling, crossings)
            continue
        for at in range(link_first[full], link_first[full + 1]):
            if filling.rising[flows[at]]:
                _settle(flows[at], level, filling, crossings)


def max_min_rates(demand, first, links, capacity, parts):
    """Rate of every flow; flow j crosses the distinct links `links[first[j]:first[j + 1]]`.

    `parts`, one for each of `links`, are the parts of the flow's rate that the links carry. Demands and capacities in
    one unit (GB/s). A flow that crosses nothing gets its demand.
    """
    cdef Crossings crossings = _crossings(ints(first), ints(links), floats(parts))
    cdef Floats room = floats(capacity)
    cdef Filling filling
    cdef vector[uint8_t] rising
    cdef vector[double] left, load
    cdef vector[int64_t] risers
    rate = demand.copy()
    rising.resize(crossings.flows)
    left.assign(room.at, room.at + room.size)
    risers.resize(room.size)
    load.resize(room.size)
    filling.rate, filling.rising, filling.left = floats(rate).at, rising.data(), left.data()
    filling.risers, filling.load = risers.data(), load.data()
    _begin(&crossings, &filling)
    _fill(&crossings, &filling, room.size)
    return rate


def busiest(first, loads):
    """The largest load of each flow, 0 for one that crosses nothing, and every load as a part of it."""
    cdef Ints begins = ints(first)
    cdef Floats load = floats(loads), most, part
    cdef int64_t flow, at
    largest, parts = np.zeros(begins.size - 1), np.ones(load.size)
    most, part = floats(largest), floats(parts)
    for flow in range(begins.size - 1):
        for at in range(begins.at[flow], begins.at[flow + 1]):
            most.at[flow] = max(most.at[flow], load.at[at])
        for at in range(begins.at[flow], begins.at[flow + 1]):
            part.at[at] = load.at[at] / most.at[flow]
    return largest, parts


def narrowest(first, links, parts, capacity):
    """The highest rate that each flow's uplinks allow it alone; infinite for one that crosses none."""
    cdef Crossings crossings = _crossings(ints(first), ints(links), floats(parts))
    cdef Floats room = floats(capacity), highest
    cdef int64_t flow, at
    rates = np.empty(crossings.flows)
    highest = floats(rates)
    for flow in range(crossings.flows):
        highest.at[flow] = INFINITY
        for at in range(crossings.first[flow], crossings.first[flow + 1]):
            highest.at[flow] = min(highest.at[flow], room.at[crossings.links[at]] / crossings.parts[at])
    return rates
