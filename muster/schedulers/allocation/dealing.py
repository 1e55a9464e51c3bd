"""Dealing jobs over machines so that the hungry ones do not meet, compiled.

How hungry a job is comes from the prices of CPU and memory at which one pooled machine would be just full:
at these prices every job names the point that is worth most to it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from muster.cluster.books import Floats, Ints
from muster.schedulers.allocation.gangs import Gangs, seat_gang
from muster.schedulers.allocation.seats import MOVABLE, Seats, fits, furnish, sit
from muster.schedulers.allocation.tune import fewest_servers

_HALVINGS = 40
_SWEEPS = 4


@njit(cache=True)
def targets(seats: Seats, gangs: Gangs, served: Ints, kind: int) -> Ints:
    """What each served job would have on one pooled machine, a GPU, by place in `served` and resource."""
    pool = np.zeros(4, np.int64)
    for node in range(len(seats.free)):
        for resource in range(1, 4):
            pool[resource] += seats.free[node, resource]
    count = np.zeros(len(gangs.demands.best), np.int64)
    for at in served:
        count[gangs.classes[at]] += gangs.gpus[at]
    share = np.maximum(gangs.kinds[kind]["share"], 1).astype(np.float64)
    price = np.zeros(4)
    for _ in range(_SWEEPS):
        for resource in range(1, 4):
            _clear(gangs, kind, count, share, pool, price, resource)
    wanted = np.empty((len(served), 4), np.int64)
    below, above = price * (1 - 1e-7), price * (1 + 1e-7)
    for i in range(len(served)):
        modest = _worth_most(gangs, gangs.classes[served[i]], kind, share, above)
        wanted[i] = gangs.demands.choice[modest]
        for resource in range(1, 4):
            pool[resource] -= gangs.gpus[served[i]] * wanted[i, resource]
    # At the very price some are torn between two points: the first ones have the larger while the pool lasts.
    for i in range(len(served)):
        eager = gangs.demands.choice[_worth_most(gangs, gangs.classes[served[i]], kind, share, below)]
        more = gangs.gpus[served[i]] * (eager - wanted[i])
        if (more[1:] <= pool[1:]).all():
            pool -= more
            wanted[i] = eager
    return wanted


@njit(cache=True)
def _clear(
    gangs: Gangs, kind: int, count: Ints, share: Floats, pool: Ints, price: Floats, resource: int
) -> None:
    """Set the lowest price of one resource at which the pool is not overdrawn."""
    price[resource] = 0.0
    if _demand(gangs, kind, count, share, price, resource) <= pool[resource]:
        return
    low, high = 0.0, 1e3
    for _ in range(_HALVINGS):
        price[resource] = (low + high) / 2
        if _demand(gangs, kind, count, share, price, resource) <= pool[resource]:
            high = price[resource]
        else:
            low = price[resource]
    price[resource] = high


@njit(cache=True)
def _demand(gangs: Gangs, kind: int, count: Ints, share: Floats, price: Floats, resource: int) -> int:
    total = 0
    for number in range(len(count)):
        if count[number]:
            chosen = _worth_most(gangs, number, kind, share, price)
            total += count[number] * gangs.demands.choice[chosen, resource]
    return total


@njit(cache=True)
def _worth_most(gangs: Gangs, number: int, kind: int, share: Floats, price: Floats) -> int:
    """The choice of a class with the most speed left after its price (speed a GPU's share)."""
    pair = number * len(gangs.kinds) + kind
    best, most = -1, -np.inf
    for choice in range(gangs.demands.first_choice[pair], gangs.demands.first_choice[pair + 1]):
        worth = gangs.demands.choice_speed[choice]
        for resource in range(1, 4):
            worth -= price[resource] * gangs.demands.choice[choice, resource] / share[resource]
        if worth > most + 1e-12:
            best, most = choice, worth
    return best


@njit(cache=True)
def share_out(seats: Seats, gangs: Gangs) -> None:
    """Give everybody who sits the fair share, or as much of it as jobs that are kept apart have left."""
    for number in range(seats.used[0]):
        seat = seats.seats[number]
        need = gangs.demands.fair[gangs.classes[seat["at"]], gangs.kind_of_node[seat["node"]]].copy()
        for resource in range(1, 4):
            need[resource] = min(need[resource], seats.free[seat["node"], resource] // seat["gpus"])
        furnish(seats, number, need)


@njit(cache=True)
def deal(seats: Seats, gangs: Gangs, served: Ints, wanted: Ints) -> None:
    """Seat the served jobs with their fair share, each where most is left of what it wants; gangs first.

    `served` is by GPUs, then hunger, descending. A gang that no machine holds goes to as few as possible. Those
    who sit already keep their seats, and what they want counts.
    """
    nodes = len(gangs.kind_of_node)
    room = seats.free.copy()
    for i in range(len(served)):
        number = seats.first[served[i]]
        while number >= 0:
            seat = seats.seats[number]
            for resource in range(1, 4):
                room[seat["node"], resource] += seat["amount"][resource] - seat["gpus"] * wanted[i, resource]
            number = seat["next"]
    capacity = np.maximum(gangs.kinds["capacity"], 1)
    take = np.zeros(nodes, np.int64)
    for i in range(len(served)):
        at = served[i]
        if seats.condition[at] != MOVABLE or seats.first[at] >= 0:
            continue
        gpus = gangs.gpus[at]
        allowed = gangs.node_allowed[gangs.constraint[at]]
        fair = gangs.demands.fair[gangs.classes[at]]
        best, most = -1, -np.inf
        for node in range(nodes):
            if not allowed[node] or seats.free[node, 0] < gpus:
                continue
            kind = gangs.kind_of_node[node]
            if not fits(seats, node, gpus, fair[kind]):
                continue
            left = np.inf
            for resource in range(1, 3):
                after = room[node, resource] - gpus * wanted[i, resource]
                left = min(left, after / capacity[kind, resource])
            if left > most + 1e-12:
                best, most = node, left
        if best >= 0:
            furnish(seats, sit(seats, at, best, gpus), fair[gangs.kind_of_node[best]])
            for resource in range(1, 4):
                room[best, resource] -= gpus * wanted[i, resource]
        elif fewest_servers(seats, gangs, at, fair, take) > 0:
            seat_gang(seats, gangs, at, fair, take)
            for node in range(nodes):
                for resource in range(1, 4):
                    room[node, resource] -= take[node] * wanted[i, resource]
