"""The two ways in which the Synergy authors' program chooses servers for a job with a fixed need a GPU."""

from __future__ import annotations

from typing import Literal

from muster.cluster.books import Bools, Ints
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.seats import Seats, fits, gpus_that_fit

GpuChoice = Literal["first-fit", "consolidating"]


@njit(cache=True)
def pick(seats: Seats, gangs: Gangs, at: int, need: Ints, consolidating: bool, take: Ints) -> bool:
    """Choose servers for a job; `take` gets the GPUs on each. `need` is by kind of machine and resource."""
    nodes = len(take)
    gpus, kind_of_node = gangs.gpus[at], gangs.kind_of_node
    allowed = gangs.node_allowed[gangs.constraint[at]]
    if not consolidating:
        left = gpus
        for node in range(nodes):
            take[node] = 0
            if left > 0 and allowed[node] and seats.free[node, 0] > 0:
                take[node] = min(left, gpus_that_fit(seats, node, need[kind_of_node[node]]))
                left -= take[node]
        return bool(left == 0)
    take[:] = 0
    best = -1
    if gpus > 1:
        for node in range(nodes):
            if (
                allowed[node]
                and seats.free[node, 0] >= gpus
                and (best < 0 or seats.free[node, 0] < seats.free[best, 0])
                and fits(seats, node, gpus, need[kind_of_node[node]])
            ):
                best = node
    if best >= 0:
        take[best] = gpus
        return True
    return _fullest_first(seats, allowed, gpus, need, kind_of_node, take)


@njit(cache=True)
def _fullest_first(
    seats: Seats, allowed: Bools, gpus: int, need: Ints, kind_of_node: Ints, take: Ints
) -> bool:
    """A GPU at a time from the server with the fewest free GPUs; a server that cannot give one is left."""
    room = seats.free[:, 0].copy()
    for node in range(len(take)):
        if not allowed[node] or room[node] == 0:
            room[node] = -1
    while gpus > 0:
        best = -1
        for node in range(len(take)):
            if room[node] > 0 and (best < 0 or room[node] < room[best]):
                best = node
        if best < 0:
            return False
        if fits(seats, best, take[best] + 1, need[kind_of_node[best]]):
            take[best] += 1
            room[best] -= 1
            gpus -= 1
        else:
            room[best] = -1
    return True
