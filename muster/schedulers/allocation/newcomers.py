"""Placing waiting jobs beside running ones, each on the node where the speed of all gains most, compiled.

The jobs that are placed already keep their GPUs; what they hold beside them may be given out again.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import NONE, Ints
from muster.compiling import njit
from muster.schedulers.allocation.fair_share import place_by_best_fit
from muster.schedulers.allocation.gangs import Gangs, set_level
from muster.schedulers.allocation.node_search import best_fits
from muster.schedulers.allocation.placement_draft import PlacementDraft, add_part, remove_last, set_amounts
from muster.schedulers.allocation.resource_fill import fill_all, fill_node, gang_speed
from muster.schedulers.placement.kernels import tighter

_EPSILON = 1e-9


@njit(cache=True)
def place_newcomers(draft: PlacementDraft, gangs: Gangs, served: Ints, ranked: Ints) -> None:
    """Place the served jobs that have no place; those for which there is none leave their GPUs to others, by rank.

    Each node is then given to those of its jobs that gain most.
    """
    fill_all(draft, gangs)
    take = np.zeros(len(gangs.kind_of_node), np.int64)
    left = 0
    for at in served:
        if draft.movable[at] and draft.first[at] < 0 and not _place(draft, gangs, at, take):
            left += gangs.gpus[at]
    for at in ranked:
        if draft.movable[at] and draft.first[at] < 0 and gangs.gpus[at] <= left:
            left -= gangs.gpus[at] * _place(draft, gangs, at, take)


@njit(cache=True)
def _place(draft: PlacementDraft, gangs: Gangs, at: int, take: Ints) -> bool:
    """Place a job on the best node, or on as few as possible; returns whether it has a place.

    Where nodes are alike, one with room for all of the job's demand is as good as can be: best fit chooses it.
    """
    best = gangs.demands.best[gangs.classes[at]]
    node = best_fits(draft, gangs, at, best, best)[0] if len(gangs.kinds) == 1 else -1
    if node >= 0:
        set_amounts(draft, add_part(draft, at, node, gangs.gpus[at]), best[gangs.kind_of_node[node]])
        return True
    node = _most_gain(draft, gangs, at)
    if node >= 0:
        _add(draft, gangs, at, node)
        return True
    if not place_by_best_fit(draft, gangs, at, take):
        return False
    number = draft.first[at]
    while number >= 0:
        fill_node(draft, gangs, draft.node_parts[number]["node"])
        number = draft.node_parts[number]["next"]
    return True


@njit(cache=True)
def _most_gain(draft: PlacementDraft, gangs: Gangs, at: int) -> int:
    """Return the node for the whole job with the most speed gained in all, of equals the fullest; -1: none."""
    allowed = gangs.node_allowed[gangs.constraint[at]]
    best, most = -1, -np.inf
    for node in range(len(gangs.kind_of_node)):
        if draft.free[node, 0] < gangs.gpus[at] or not allowed[node]:
            continue
        before = _speed_on(draft, gangs, node)
        amounts, free = draft.node_parts["amount"][: draft.used[0]].copy(), draft.free.copy()
        if _add(draft, gangs, at, node):
            gain = _speed_on(draft, gangs, node) - before
            alike = abs(gain - most) <= _EPSILON
            if (alike and tighter(draft.free[:, :3], node, best, NONE)) or (not alike and gain > most):
                best, most = node, gain
        remove_last(draft)
        draft.node_parts["amount"][: draft.used[0]] = amounts
        draft.free[:] = free
    return best


@njit(cache=True)
def _add(draft: PlacementDraft, gangs: Gangs, at: int, node: int) -> bool:
    """Put a job on a node and share the node out again; returns whether all have their fair share there.

    Gangs on several nodes are lowered to their fair share only where there is no room otherwise.
    """
    fair = gangs.demands.fair[gangs.classes[at], gangs.kind_of_node[node]]
    set_amounts(draft, add_part(draft, at, node, gangs.gpus[at]), fair)
    fill_node(draft, gangs, node)
    if draft.free[node].min() < 0:
        number = draft.first_here[node]
        while number >= 0:
            other = draft.node_parts[number]["at"]
            if draft.node_parts[draft.first[other]]["next"] >= 0:
                set_level(draft, gangs, other, gangs.demands.fair[gangs.classes[other]])
            number = draft.node_parts[number]["next_here"]
        fill_node(draft, gangs, node)
    return bool(draft.free[node].min() >= 0)


@njit(cache=True)
def _speed_on(draft: PlacementDraft, gangs: Gangs, node: int) -> float:
    """Return GPUs times speed of all jobs that have GPUs of this node."""
    total = 0.0
    number = draft.first_here[node]
    while number >= 0:
        at = draft.node_parts[number]["at"]
        total += gangs.gpus[at] * gang_speed(draft, gangs, at)
        number = draft.node_parts[number]["next_here"]
    return total
