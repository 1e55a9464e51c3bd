"""Assigning jobs to nodes so that the most demanding ones do not meet, compiled.

How much a job wants follows from the prices of CPU and memory at which one pooled machine would be just full:
at these prices every job names the point that is worth most to it.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import NONE, Floats, Ints
from muster.cluster.resources import BUILT_IN_COUNT, RESOURCE_COUNT
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs, amount_per_gpu, place_gang, request_above_share
from muster.schedulers.allocation.node_search import fewest_nodes
from muster.schedulers.allocation.placement_draft import PlacementDraft, add_part, fits, set_amounts

_HALVINGS = 18
_HIGHEST_PRICE = 8.0
_TORN = 1e-4
"""A job is torn between two points if its choice changes with so small a part of the price."""


@njit(cache=True)
def targets(draft: PlacementDraft, gangs: Gangs, served: Ints, kind: int) -> tuple[Ints, float]:
    """Return what each served job would have on one pooled machine, a GPU, by place in `served` and resource.

    And how far the speed of all there may be below the best, as a part of it: what the prices prove.
    """
    pool = np.zeros(RESOURCE_COUNT, np.int64)
    for node in range(len(draft.free)):
        for resource in range(1, RESOURCE_COUNT):
            pool[resource] += draft.free[node, resource]
    for number in range(draft.used[0]):
        pool += draft.node_parts[number]["amount"]
    count = np.zeros(len(gangs.demands.best), np.int64)
    for at in served:
        count[gangs.classes[at]] += gangs.gpus[at]
    share = amount_per_gpu(gangs.kinds, kind).astype(np.float64)
    price = np.zeros(RESOURCE_COUNT)
    _clear(gangs, kind, count, share, pool, price)
    bound = 0.0
    for resource in range(1, RESOURCE_COUNT):
        bound += price[resource] * pool[resource] / share[resource]
    wanted = np.empty((len(served), RESOURCE_COUNT), np.int64)
    below, above = price * (1 - _TORN), price * (1 + _TORN)
    reached = 0.0
    for i in range(len(served)):
        number, gpus = gangs.classes[served[i]], gangs.gpus[served[i]]
        modest = _worth_most(gangs, number, kind, share, above)
        wanted[i] = gangs.demands.choice[modest]
        reached += gpus * gangs.demands.choice_speed[modest]
        bound += gpus * _worth(gangs, _worth_most(gangs, number, kind, share, price), share, price)
        for resource in range(1, RESOURCE_COUNT):
            pool[resource] -= gpus * wanted[i, resource]
    reached += _give_larger_points(gangs, served, kind, share, (below, above), pool, wanted)
    return wanted, max(0.0, 1 - reached / bound) if bound > 0 else 0.0


@njit(cache=True)
def _give_larger_points(
    gangs: Gangs,
    served: Ints,
    kind: int,
    share: Floats,
    prices: tuple[Floats, Floats],
    pool: Ints,
    wanted: Ints,
) -> float:
    """Raise jobs that are torn between two points to the larger one while the pool lasts; the speed gained.

    First come those that want more memory for it: few do, and the CPUs left to the others are of use to many.
    """
    below, above = prices
    more = np.zeros((len(served), RESOURCE_COUNT), np.int64)
    faster = np.zeros(len(served))
    for i in range(len(served)):
        number, gpus = gangs.classes[served[i]], gangs.gpus[served[i]]
        eager = _worth_most(gangs, number, kind, share, below)
        more[i] = gangs.demands.choice[eager] - wanted[i]
        modest = _worth_most(gangs, number, kind, share, above)
        faster[i] = gpus * (gangs.demands.choice_speed[eager] - gangs.demands.choice_speed[modest])
    reached = 0.0
    for i in np.argsort(-more[:, 2], kind="mergesort"):
        taken = gangs.gpus[served[i]] * more[i]
        if (taken[1:] <= pool[1:]).all():
            pool -= taken
            wanted[i] += more[i]
            reached += faster[i]
    return reached


@njit(cache=True)
def _clear(gangs: Gangs, kind: int, count: Ints, share: Floats, pool: Ints, price: Floats) -> None:
    """Set the lowest prices at which the pool is not overdrawn, each by halving an interval.

    At each price of storage memory is priced again, and at each price of memory CPUs.
    """
    low, high, judged = (
        np.zeros(RESOURCE_COUNT),
        np.full(RESOURCE_COUNT, _HIGHEST_PRICE),
        np.zeros(RESOURCE_COUNT, np.int64),
    )
    resource = 1
    while resource < BUILT_IN_COUNT:
        enough = judged[resource] > _HALVINGS
        if not enough:
            enough = _demand(gangs, kind, count, share, price, resource) <= pool[resource]
            if judged[resource] > 0 or not enough:
                bound = high if enough else low
                bound[resource] = price[resource]
                judged[resource] += 1
                price[resource] = (low[resource] + high[resource]) / 2
                if judged[resource] > _HALVINGS:
                    price[resource] = high[resource]
                low[1:resource], high[1:resource] = 0.0, _HIGHEST_PRICE
                price[1:resource], judged[1:resource] = 0.0, 0
                enough = False
        resource = resource + 1 if enough else 1


@njit(cache=True)
def _demand(gangs: Gangs, kind: int, count: Ints, share: Floats, price: Floats, resource: int) -> int:
    total = 0
    for number in range(len(count)):
        if count[number]:
            chosen = _worth_most(gangs, number, kind, share, price)
            total += count[number] * gangs.demands.choice[chosen, resource]
    return total


@njit(cache=True, forceinline=True)
def _worth_most(gangs: Gangs, number: int, kind: int, share: Floats, price: Floats) -> int:
    """The choice of a class with the most speed left after its price (speed a GPU's share)."""
    pair = number * len(gangs.kinds) + kind
    best, most = -1, -np.inf
    for choice in range(gangs.demands.first_choice[pair], gangs.demands.first_choice[pair + 1]):
        worth = _worth(gangs, choice, share, price)
        if worth > most + 1e-12:
            best, most = choice, worth
    return best


@njit(cache=True, forceinline=True)
def _worth(gangs: Gangs, choice: int, share: Floats, price: Floats) -> float:
    """The speed of a choice less its price, for each GPU."""
    worth: float = gangs.demands.choice_speed[choice]
    for resource in range(1, RESOURCE_COUNT):
        worth -= price[resource] * gangs.demands.choice[choice, resource] / share[resource]
    return worth


def assign_nodes(
    plan: PlacementDraft, gangs: Gangs, of_kind: Ints, served: Ints, ranked: Ints, wanted: Ints
) -> None:
    """Place the served jobs on what is free; those without a place leave their GPUs to others, by rank.

    Each goes to a node of its kind, by place in `served`, or to another if none of that kind has room.
    """
    _share_out(plan, gangs)
    apart = _deviations(gangs, of_kind, served, wanted)
    above = request_above_share(gangs, served)
    order = np.lexsort((-np.abs(apart).sum(axis=1), -gangs.gpus[served], ~above))
    _assign(plan, gangs, served[order], of_kind[order], apart[order])
    left = int(gangs.gpus[served[plan.first[served] == NONE]].sum())
    if left:
        rest = ranked[(plan.first[ranked] == NONE) & (gangs.gpus[ranked] <= left)]
        rest = rest[np.cumsum(gangs.gpus[rest]) <= left]
        _assign(plan, gangs, rest, np.zeros(len(rest), np.int64), np.zeros((len(rest), RESOURCE_COUNT)))


@njit(cache=True)
def _share_out(draft: PlacementDraft, gangs: Gangs) -> None:
    """Give each node part its request, then the fair share, or as much of it as is left."""
    for number in range(draft.used[0]):
        set_amounts(draft, number, gangs.demands.requested[gangs.classes[draft.node_parts[number]["at"]]])
    for number in range(draft.used[0]):
        node_part = draft.node_parts[number]
        need = gangs.demands.fair[
            gangs.classes[node_part["at"]], gangs.kind_of_node[node_part["node"]]
        ].copy()
        for resource in range(1, RESOURCE_COUNT):
            most = node_part["amount"][resource] + draft.free[node_part["node"], resource]
            need[resource] = min(need[resource], most // node_part["gpus"])
        set_amounts(draft, number, need)


@njit(cache=True)
def _deviations(gangs: Gangs, of_kind: Ints, served: Ints, wanted: Ints) -> Floats:
    """Return how much more or less than an average GPU of its kind each job's GPU wants: by place, in shares."""
    apart = np.zeros((len(served), RESOURCE_COUNT))
    average = np.zeros((len(gangs.kinds), RESOURCE_COUNT))
    gpus = np.zeros(len(gangs.kinds))
    for i in range(len(served)):
        gpus[of_kind[i]] += gangs.gpus[served[i]]
    for i in range(len(served)):
        for resource in range(1, RESOURCE_COUNT):
            part = gangs.gpus[served[i]] / gpus[of_kind[i]]
            average[of_kind[i], resource] += wanted[i, resource] * part
    for i in range(len(served)):
        share = amount_per_gpu(gangs.kinds, of_kind[i])
        for resource in range(1, RESOURCE_COUNT):
            apart[i, resource] = (wanted[i, resource] - average[of_kind[i], resource]) / share[resource]
    return apart


@njit(cache=True)
def _assign(draft: PlacementDraft, gangs: Gangs, served: Ints, of_kind: Ints, apart: Floats) -> None:
    """Place the served jobs with their fair share: those that want more than the average where others want less.

    `served` begins with the largest gangs and the strongest deviations. A gang that no node holds goes to as few as
    possible. Jobs that are placed already stay, and what they want counts.
    """
    nodes = len(gangs.kind_of_node)
    surplus = np.zeros((nodes, RESOURCE_COUNT))
    for i in range(len(served)):
        number = draft.first[served[i]]
        while number >= 0:
            node_part = draft.node_parts[number]
            surplus[node_part["node"]] -= node_part["gpus"] * apart[i]
            number = node_part["next"]
    take = np.zeros(nodes, np.int64)
    for i in range(len(served)):
        at = served[i]
        if not draft.movable[at] or draft.first[at] >= 0:
            continue
        fair = gangs.demands.fair[gangs.classes[at]]
        best = _best_match(draft, gangs, at, of_kind[i], apart[i], surplus)
        if best >= 0:
            set_amounts(draft, add_part(draft, at, best, gangs.gpus[at]), fair[gangs.kind_of_node[best]])
            surplus[best] -= gangs.gpus[at] * apart[i]
        elif fewest_nodes(draft, gangs, at, fair, take) > 0:
            place_gang(draft, gangs, at, fair, take)
            for node in range(nodes):
                surplus[node] -= take[node] * apart[i]


@njit(cache=True)
def _best_match(
    draft: PlacementDraft, gangs: Gangs, at: int, kind: int, apart: Floats, surplus: Floats
) -> int:
    """Return the node with room for the whole job whose other jobs want least of what it wants; -1: none.

    A node of the kind goes before all others.
    """
    allowed = gangs.node_allowed[gangs.constraint[at]]
    fair = gangs.demands.fair[gangs.classes[at]]
    best, most, best_suits = -1, -np.inf, False
    for node in range(len(gangs.kind_of_node)):
        suits = gangs.kind_of_node[node] == kind
        if not allowed[node] or draft.free[node, 0] < gangs.gpus[at] or (best_suits and not suits):
            continue
        match = 0.0
        for resource in range(1, RESOURCE_COUNT):
            match += surplus[node, resource] * apart[resource]
        if match > most + 1e-12 or (suits and not best_suits):
            if fits(draft, node, gangs.gpus[at], fair[gangs.kind_of_node[node]]):
                best, most, best_suits = node, match, suits
    return best
