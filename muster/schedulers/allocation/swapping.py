"""Exchanging jobs of two machines where that raises the speed of both together, compiled."""

from __future__ import annotations

import numpy as np

from muster.cluster.books import Bools, Floats, Ints
from muster.compiling import njit
from muster.schedulers.allocation.furnishing import furnish_node, gang_speed, meets_requests, per_gpu
from muster.schedulers.allocation.gangs import Gangs, model_on
from muster.schedulers.allocation.seats import MOVABLE, Seats, furnish
from muster.speed.points import speed_at

_PARTNERS = 3
"""Machines tried for a job before it is given up."""


@njit(cache=True)
def swap_jobs(seats: Seats, gangs: Gangs, served: Ints, wanted: Ints, of_kind: Ints, tries: int) -> None:
    """Bring jobs that have least of what they want to machines where least is missing, against meeker ones."""
    missing = np.zeros(len(gangs.gpus))
    hunger = np.zeros(len(gangs.gpus))
    for i in range(len(served)):
        at = served[i]
        hunger[at] = gangs.gpus[at] * wanted[i, 1]
        if seats.first[at] >= 0:
            full = speed_at(gangs.models, model_on(gangs, at, of_kind[i]), wanted[i])
            missing[at] = gangs.gpus[at] * (full - gang_speed(seats, gangs, at))
    pressure = np.zeros(len(seats.free))
    for number in range(seats.used[0]):
        pressure[seats.seats[number]["node"]] += missing[seats.seats[number]["at"]]
    saved = np.empty((2, 64, 4), np.int64)
    for worst in served[np.argsort(-missing[served], kind="mergesort")]:
        if tries <= 0 or missing[worst] <= 1e-6:
            return
        if not _alone(seats, worst):
            continue
        here = seats.seats[seats.first[worst]]["node"]
        tried = np.zeros(len(pressure), np.bool_)
        tried[here] = True
        speed_here = _speed_on(seats, gangs, here)
        for _ in range(_PARTNERS):
            partner = _partner(seats, gangs, worst, hunger, pressure, tried)
            if partner < 0:
                break
            tries -= 1
            there = seats.seats[seats.first[partner]]["node"]
            before = speed_here + _speed_on(seats, gangs, there)
            _save(seats, here, saved[0])
            _save(seats, there, saved[1])
            _swap(seats, worst, partner)
            furnish_node(seats, gangs, here)
            furnish_node(seats, gangs, there)
            gain = _speed_on(seats, gangs, here) + _speed_on(seats, gangs, there) - before
            if gain > 1e-9 and meets_requests(seats, gangs, here) and meets_requests(seats, gangs, there):
                # What was missing in both together has become less; the larger part of it moved.
                pressure[there] += max(missing[worst] - gain, 0.0)
                pressure[here] -= missing[worst]
                break
            _swap(seats, worst, partner)
            _restore(seats, here, saved[0])
            _restore(seats, there, saved[1])


@njit(cache=True)
def _alone(seats: Seats, at: int) -> bool:
    """Whether a job may be moved and sits on one machine."""
    number = seats.first[at]
    return bool(number >= 0 and seats.condition[at] == MOVABLE and seats.seats[number]["next"] < 0)


@njit(cache=True)
def _partner(seats: Seats, gangs: Gangs, at: int, hunger: Floats, pressure: Floats, tried: Bools) -> int:
    """The meekest job of as many GPUs on the machine, of those not tried, where least is missing; -1: none."""
    node = seats.seats[seats.first[at]]["node"]
    allowed = gangs.node_allowed[gangs.constraint[at]]
    while True:
        there = -1
        for other in range(len(pressure)):
            if not tried[other] and allowed[other] and (there < 0 or pressure[other] < pressure[there]):
                there = other
        if there < 0:
            return -1
        tried[there] = True
        best = -1
        number = seats.first_here[there]
        while number >= 0:
            other = seats.seats[number]["at"]
            if gangs.gpus[other] == gangs.gpus[at] and hunger[other] < hunger[at] and _alone(seats, other):
                reachable = gangs.node_allowed[gangs.constraint[other], node]
                if reachable and (best < 0 or hunger[other] < hunger[best]):
                    best = other
            number = seats.seats[number]["next_here"]
        if best >= 0:
            return best


@njit(cache=True)
def _swap(seats: Seats, one: int, other: int) -> None:
    a, b = seats.first[one], seats.first[other]
    seats.seats[a]["at"], seats.seats[b]["at"] = other, one
    seats.first[one], seats.first[other] = b, a


@njit(cache=True)
def _speed_on(seats: Seats, gangs: Gangs, node: int) -> float:
    """GPUs times speed of the jobs that sit on this machine alone."""
    total = 0.0
    number = seats.first_here[node]
    while number >= 0:
        seat = seats.seats[number]
        if seat["next"] < 0 and seats.first[seat["at"]] == number:
            total += gangs.gpus[seat["at"]] * gang_speed(seats, gangs, seat["at"])
        number = seat["next_here"]
    return total


@njit(cache=True)
def _save(seats: Seats, node: int, saved: Ints) -> None:
    number, place = seats.first_here[node], 0
    while number >= 0:
        per_gpu(seats, number, saved[place])
        number = seats.seats[number]["next_here"]
        place += 1


@njit(cache=True)
def _restore(seats: Seats, node: int, saved: Ints) -> None:
    number, place = seats.first_here[node], 0
    while number >= 0:
        furnish(seats, number, saved[place])
        number = seats.seats[number]["next_here"]
        place += 1
