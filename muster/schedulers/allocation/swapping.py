"""Exchanging jobs of two nodes where that raises the speed of both together, compiled."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs, model_on
from muster.schedulers.allocation.placement_draft import PlacementDraft, set_amounts
from muster.schedulers.allocation.resource_fill import fill_node, gang_speed, meets_requests, per_gpu
from muster.speed.kernels import speed_at

_PARTNERS = 3
"""Nodes tried for a job before it is given up."""


@njit(cache=True)
def swap_jobs(
    draft: PlacementDraft, gangs: Gangs, served: Ints, wanted: Ints, of_kind: Ints, tries: int
) -> None:
    """Exchange jobs that lack most of what they want with less demanding ones, on nodes where least is missing."""
    missing = np.zeros(len(gangs.gpus))
    hunger = np.zeros(len(gangs.gpus))
    for i in range(len(served)):
        at = served[i]
        hunger[at] = gangs.gpus[at] * wanted[i, 1]
        if draft.first[at] >= 0:
            full = speed_at(gangs.models, model_on(gangs, at, of_kind[i]), wanted[i])
            missing[at] = gangs.gpus[at] * (full - gang_speed(draft, gangs, at))
    pressure = np.zeros(len(draft.free))
    for number in range(draft.used[0]):
        pressure[draft.node_parts[number]["node"]] += missing[draft.node_parts[number]["at"]]
    saved = np.empty((2, 64, RESOURCE_COUNT), np.int64)
    for worst in served[np.argsort(-missing[served], kind="mergesort")]:
        if tries <= 0 or missing[worst] <= 1e-6:
            return
        if not _alone(draft, worst):
            continue
        here = draft.node_parts[draft.first[worst]]["node"]
        tried = np.zeros(len(pressure), np.bool_)
        tried[here] = True
        speed_here = _speed_on(draft, gangs, here)
        for _ in range(_PARTNERS):
            partner = _partner(draft, gangs, worst, hunger, pressure, tried)
            if partner < 0:
                break
            tries -= 1
            there = draft.node_parts[draft.first[partner]]["node"]
            before = speed_here + _speed_on(draft, gangs, there)
            _save(draft, here, saved[0])
            _save(draft, there, saved[1])
            _swap(draft, worst, partner)
            fill_node(draft, gangs, here)
            fill_node(draft, gangs, there)
            gain = _speed_on(draft, gangs, here) + _speed_on(draft, gangs, there) - before
            if gain > 1e-9 and meets_requests(draft, gangs, here) and meets_requests(draft, gangs, there):
                # What was missing in both together has become less; the larger part of it moved.
                pressure[there] += max(missing[worst] - gain, 0.0)
                pressure[here] -= missing[worst]
                break
            _swap(draft, worst, partner)
            _restore(draft, here, saved[0])
            _restore(draft, there, saved[1])


@njit(cache=True)
def _alone(draft: PlacementDraft, at: int) -> bool:
    """Return whether a job may be moved and has all its GPUs on one node."""
    number = draft.first[at]
    return bool(number >= 0 and draft.movable[at] and draft.node_parts[number]["next"] < 0)


@njit(cache=True)
def _partner(
    draft: PlacementDraft, gangs: Gangs, at: int, hunger: Floats, pressure: Floats, tried: Bools
) -> int:
    """Return the least demanding job of as many GPUs on the untried node where least is missing; -1: none."""
    node = draft.node_parts[draft.first[at]]["node"]
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
        number = draft.first_here[there]
        while number >= 0:
            other = draft.node_parts[number]["at"]
            if gangs.gpus[other] == gangs.gpus[at] and hunger[other] < hunger[at] and _alone(draft, other):
                reachable = gangs.node_allowed[gangs.constraint[other], node]
                if reachable and (best < 0 or hunger[other] < hunger[best]):
                    best = other
            number = draft.node_parts[number]["next_here"]
        if best >= 0:
            return best


@njit(cache=True)
def _swap(draft: PlacementDraft, one: int, other: int) -> None:
    a, b = draft.first[one], draft.first[other]
    draft.node_parts[a]["at"], draft.node_parts[b]["at"] = other, one
    draft.first[one], draft.first[other] = b, a


@njit(cache=True)
def _speed_on(draft: PlacementDraft, gangs: Gangs, node: int) -> float:
    """Return GPUs times speed of the jobs that have all their GPUs on this node."""
    total = 0.0
    number = draft.first_here[node]
    while number >= 0:
        node_part = draft.node_parts[number]
        if node_part["next"] < 0 and draft.first[node_part["at"]] == number:
            total += gangs.gpus[node_part["at"]] * gang_speed(draft, gangs, node_part["at"])
        number = node_part["next_here"]
    return total


@njit(cache=True)
def _save(draft: PlacementDraft, node: int, saved: Ints) -> None:
    number, place = draft.first_here[node], 0
    while number >= 0:
        per_gpu(draft, number, saved[place])
        number = draft.node_parts[number]["next_here"]
        place += 1


@njit(cache=True)
def _restore(draft: PlacementDraft, node: int, saved: Ints) -> None:
    number, place = draft.first_here[node], 0
    while number >= 0:
        set_amounts(draft, number, saved[place])
        number = draft.node_parts[number]["next_here"]
        place += 1
