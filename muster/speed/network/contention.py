"""Who gets how much of a shared uplink: max-min fairness by progressive filling.

Every job is one flow with a demand, on all the uplinks it crosses; its rate is that on its busiest uplink, and each
other one carries a fixed part of it. The rates rise for all flows alike; a flow stops rising at its demand, or when an
uplink of its own is full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.compiling import njit


class _Crossings(NamedTuple):
    """The links that each flow crosses: flow j those of the places `first[j]` to `first[j + 1] - 1`."""

    first: Ints
    links: Ints
    parts: Floats
    """Of the flow's rate, which each link carries."""


class _Filling(NamedTuple):
    """How far the progressive filling is."""

    rate: Floats
    """Of each flow: its demand, or what it has settled at."""
    rising: Bools
    """Whether a flow still rises."""
    left: Floats
    """Capacity of each link that no settled flow uses."""
    risers: Ints
    """Rising flows on each link."""
    load: Floats
    """Of the rising flows on each link, for each unit of their common rate."""


@njit(cache=True)
def max_min_rates(demand: Floats, first: Ints, links: Ints, capacity: Floats, parts: Floats) -> Floats:
    """Rate of every flow; flow j crosses the distinct links `links[first[j]:first[j + 1]]`.

    `parts`, one for each of `links`, are the parts of the flow's rate that the links carry. Demands and capacities in
    one unit (GB/s). A flow that crosses nothing gets its demand.
    """
    flows = demand.size
    crossings = _Crossings(first, links, parts)
    filling = _begin(demand, capacity, crossings)
    crossing_first, crossing = _flows_by_link(first, links, capacity.size)
    used = np.unique(links)
    modest_first = np.argsort(demand, kind="mergesort")
    next_modest = 0
    while True:
        while next_modest < flows and not filling.rising[modest_first[next_modest]]:
            next_modest += 1
        if next_modest == flows:
            return filling.rate
        flow = modest_first[next_modest]
        level, full = _next_full_link(filling, used, demand[flow])
        if full < 0:
            _settle(flow, level, filling, crossings)
            continue
        for at in range(crossing_first[full], crossing_first[full + 1]):
            if filling.rising[crossing[at]]:
                _settle(crossing[at], level, filling, crossings)


@njit(cache=True)
def _begin(demand: Floats, capacity: Floats, crossings: _Crossings) -> _Filling:
    """All flows that cross a link rise from 0; the others have their demand."""
    first, links, parts = crossings
    rising = first[1:] > first[:-1]
    risers = np.zeros(capacity.size, dtype=np.int64)
    load = np.zeros(capacity.size)
    for at in range(links.size):
        risers[links[at]] += 1
        load[links[at]] += parts[at]
    return _Filling(demand.copy(), rising, capacity.copy(), risers, load)


@njit(cache=True)
def _next_full_link(filling: _Filling, used: Ints, demand: float) -> tuple[float, int]:
    """The common rate at which a link is full, if that is below the demand, and the link; else the demand and -1."""
    level = demand
    full = -1
    for link in used:
        if filling.risers[link] > 0 and filling.left[link] < level * filling.load[link]:
            level = max(filling.left[link], 0.0) / filling.load[link]
            full = link
    return level, full


@njit(cache=True)
def _settle(flow: int, level: float, filling: _Filling, crossings: _Crossings) -> None:
    """The flow keeps `level` for good; its links have its part of that less for the flows that still rise."""
    filling.rate[flow] = level
    filling.rising[flow] = False
    for at in range(crossings.first[flow], crossings.first[flow + 1]):
        link = crossings.links[at]
        filling.left[link] -= level * crossings.parts[at]
        filling.load[link] -= crossings.parts[at]
        filling.risers[link] -= 1


@njit(cache=True)
def _flows_by_link(first: Ints, links: Ints, count: int) -> tuple[Ints, Ints]:
    """The same crossings, listed by link."""
    link_first = np.zeros(count + 1, dtype=np.int64)
    for link in links:
        link_first[link + 1] += 1
    for link in range(count):
        link_first[link + 1] += link_first[link]
    fill = link_first[:-1].copy()
    flows = np.empty(links.size, dtype=np.int64)
    for flow in range(first.size - 1):
        for at in range(first[flow], first[flow + 1]):
            flows[fill[links[at]]] = flow
            fill[links[at]] += 1
    return link_first, flows
