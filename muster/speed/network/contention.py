"""Who gets how much of a shared uplink: max-min fairness by progressive filling.

Every job is one flow with a demand, on all the uplinks it crosses; its rate is that on its busiest uplink, and each
other one carries a fixed part of it. The rates rise for all flows alike; a flow stops rising at its demand, or when an
uplink of its own is full.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from muster.compiling import njit


@njit(cache=True)
def max_min_rates(
    demand: npt.NDArray[np.float64],
    first: npt.NDArray[np.int64],
    links: npt.NDArray[np.int64],
    capacity: npt.NDArray[np.float64],
    parts: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Rate of every flow; flow j crosses the distinct links `links[first[j]:first[j + 1]]`.

    `parts`, one for each of `links`, are the parts of the flow's rate that the links carry. Demands and capacities in
    one unit (GB/s). A flow that crosses nothing gets its demand.
    """
    flows = demand.size
    rate = demand.copy()
    rising = np.zeros(flows, dtype=np.bool_)
    left = capacity.copy()
    risers = np.zeros(capacity.size, dtype=np.int64)
    load = np.zeros(capacity.size)  # of the rising flows, for each unit of their common rate
    for flow in range(flows):
        rising[flow] = first[flow + 1] > first[flow]
        for at in range(first[flow], first[flow + 1]):
            risers[links[at]] += 1
            load[links[at]] += parts[at]

    crossing_first, crossing = _flows_by_link(first, links, capacity.size)
    used = np.unique(links)
    modest_first = np.argsort(demand, kind="mergesort")
    next_modest = 0
    while True:
        while next_modest < flows and not rising[modest_first[next_modest]]:
            next_modest += 1
        if next_modest == flows:
            return rate
        flow = modest_first[next_modest]
        level = demand[flow]
        full = -1
        for link in used:
            if risers[link] > 0 and left[link] < level * load[link]:
                level = max(left[link], 0.0) / load[link]
                full = link
        if full < 0:
            _settle(flow, level, rate, rising, left, risers, load, first, links, parts)
            continue
        for at in range(crossing_first[full], crossing_first[full + 1]):
            if rising[crossing[at]]:
                _settle(crossing[at], level, rate, rising, left, risers, load, first, links, parts)


@njit(cache=True)
def _settle(
    flow: int,
    level: float,
    rate: npt.NDArray[np.float64],
    rising: npt.NDArray[np.bool_],
    left: npt.NDArray[np.float64],
    risers: npt.NDArray[np.int64],
    load: npt.NDArray[np.float64],
    first: npt.NDArray[np.int64],
    links: npt.NDArray[np.int64],
    parts: npt.NDArray[np.float64],
) -> None:
    """The flow keeps `level` for good; its links have its part of that less for the flows that still rise."""
    rate[flow] = level
    rising[flow] = False
    for at in range(first[flow], first[flow + 1]):
        left[links[at]] -= level * parts[at]
        load[links[at]] -= parts[at]
        risers[links[at]] -= 1


@njit(cache=True)
def _flows_by_link(
    first: npt.NDArray[np.int64], links: npt.NDArray[np.int64], count: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
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
