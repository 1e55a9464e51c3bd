"""Placing waiting jobs beside running ones, each on the machine where the speed of all gains most, compiled.

The jobs that are placed already keep their GPUs; what they hold beside them may be given out again.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.books import Ints
from muster.compiling import njit
from muster.schedulers.allocation.furnishing import furnish_all, furnish_node, gang_speed
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.seats import MOVABLE, Seats, furnish, remove_last, sit
from muster.schedulers.allocation.tune import fit_with_demand, place_by_best_fit, set_level, tighter

_EPSILON = 1e-9


@njit(cache=True)
def place_newcomers(seats: Seats, gangs: Gangs, served: Ints, ranked: Ints) -> None:
    """Place the served jobs that have no place; those for which there is none leave their GPUs to others, by rank.

    Each machine is then given to those of its jobs that gain most.
    """
    furnish_all(seats, gangs)
    take = np.zeros(len(gangs.kind_of_node), np.int64)
    left = 0
    for at in served:
        if seats.condition[at] == MOVABLE and seats.first[at] < 0 and not _place(seats, gangs, at, take):
            left += gangs.gpus[at]
    for at in ranked:
        if seats.condition[at] == MOVABLE and seats.first[at] < 0 and gangs.gpus[at] <= left:
            left -= gangs.gpus[at] * _place(seats, gangs, at, take)


@njit(cache=True)
def _place(seats: Seats, gangs: Gangs, at: int, take: Ints) -> bool:
    """Place a job on the best machine, or on as few as possible; returns whether it has a place.

    Where machines are alike, one with room for all of the job's demand is as good as can be: best fit chooses it.
    """
    node = fit_with_demand(seats, gangs, at) if len(gangs.kinds) == 1 else -1
    if node >= 0:
        best = gangs.demands.best[gangs.classes[at]]
        furnish(seats, sit(seats, at, node, gangs.gpus[at]), best[gangs.kind_of_node[node]])
        return True
    node = _most_gain(seats, gangs, at)
    if node >= 0:
        _add(seats, gangs, at, node)
        return True
    if not place_by_best_fit(seats, gangs, at, take):
        return False
    number = seats.first[at]
    while number >= 0:
        furnish_node(seats, gangs, seats.seats[number]["node"])
        number = seats.seats[number]["next"]
    return True


@njit(cache=True)
def _most_gain(seats: Seats, gangs: Gangs, at: int) -> int:
    """Return the machine for the whole job with the most speed gained in all, of equals the fullest; -1: none."""
    allowed = gangs.node_allowed[gangs.constraint[at]]
    best, most = -1, -np.inf
    for node in range(len(gangs.kind_of_node)):
        if seats.free[node, 0] < gangs.gpus[at] or not allowed[node]:
            continue
        before = _speed_on(seats, gangs, node)
        amounts, free = seats.seats["amount"][: seats.used[0]].copy(), seats.free.copy()
        if _add(seats, gangs, at, node):
            gain = _speed_on(seats, gangs, node) - before
            alike = abs(gain - most) <= _EPSILON
            if (alike and tighter(seats, node, best, -1)) or (not alike and gain > most):
                best, most = node, gain
        remove_last(seats)
        seats.seats["amount"][: seats.used[0]] = amounts
        seats.free[:] = free
    return best


@njit(cache=True)
def _add(seats: Seats, gangs: Gangs, at: int, node: int) -> bool:
    """Put a job on a machine and share the machine out again; returns whether all have their fair share there.

    Gangs on several machines are lowered to their fair share only where there is no room otherwise.
    """
    fair = gangs.demands.fair[gangs.classes[at], gangs.kind_of_node[node]]
    furnish(seats, sit(seats, at, node, gangs.gpus[at]), fair)
    furnish_node(seats, gangs, node)
    if seats.free[node].min() < 0:
        number = seats.first_here[node]
        while number >= 0:
            other = seats.seats[number]["at"]
            if seats.seats[seats.first[other]]["next"] >= 0:
                set_level(seats, gangs, other, gangs.demands.fair[gangs.classes[other]])
            number = seats.seats[number]["next_here"]
        furnish_node(seats, gangs, node)
    return bool(seats.free[node].min() >= 0)


@njit(cache=True)
def _speed_on(seats: Seats, gangs: Gangs, node: int) -> float:
    """Return GPUs times speed of all jobs that have GPUs of this machine."""
    total = 0.0
    number = seats.first_here[node]
    while number >= 0:
        at = seats.seats[number]["at"]
        total += gangs.gpus[at] * gang_speed(seats, gangs, at)
        number = seats.seats[number]["next_here"]
    return total
