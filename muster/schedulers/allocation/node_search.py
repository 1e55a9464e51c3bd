"""Choosing nodes for one job on a draft, compiled."""

from __future__ import annotations

from typing import Literal

import numpy as np

from muster.cluster.ledger_arrays import Bools, Ints
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft, fits, gpus_that_fit
from muster.schedulers.placement.kernels import take_fewest_nodes, tighter

GpuChoice = Literal["first-fit", "consolidating"]


@njit(cache=True)
def pick(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints, consolidating: bool, take: Ints) -> bool:
    """Choose nodes for a job as the Synergy authors' program does; `take` gets the GPUs on each.

    `need` is by kind of node and resource. Returns whether there is a place.
    """
    nodes = len(take)
    gpus, kind_of_node = gangs.gpus[at], gangs.kind_of_node
    allowed = gangs.node_allowed[gangs.constraint[at]]
    take[:] = 0
    if not consolidating:
        left = gpus
        for node in range(nodes):
            if left > 0 and allowed[node] and draft.free[node, 0] > 0:
                take[node] = min(left, gpus_that_fit(draft, node, need[kind_of_node[node]]))
                left -= take[node]
        return bool(left == 0)
    best = -1
    if gpus > 1:
        for node in range(nodes):
            if (
                allowed[node]
                and draft.free[node, 0] >= gpus
                and (best < 0 or draft.free[node, 0] < draft.free[best, 0])
                and fits(draft, node, gpus, need[kind_of_node[node]])
            ):
                best = node
    if best >= 0:
        take[best] = gpus
        return True
    return _fullest_first(draft, allowed, gpus, need, kind_of_node, take)


@njit(cache=True)
def _fullest_first(
    draft: PlacementDraft, allowed: Bools, gpus: int, need: Ints, kind_of_node: Ints, take: Ints
) -> bool:
    """Take one GPU at a time from the node with the fewest free GPUs; a node that cannot give one is left."""
    room = np.where(allowed & (draft.free[:, 0] > 0), draft.free[:, 0], -1)
    while gpus > 0:
        best = -1
        for node in range(len(take)):
            if room[node] > 0 and (best < 0 or room[node] < room[best]):
                best = node
        if best < 0:
            return False
        if fits(draft, best, take[best] + 1, need[kind_of_node[best]]):
            take[best] += 1
            room[best] -= 1
            gpus -= 1
        else:
            room[best] = -1
    return True


@njit(cache=True)
def best_fits(draft: PlacementDraft, gangs: Gangs, at: int, best: Ints, fair: Ints) -> tuple[int, int, int]:
    """Return the best-fitting node for the whole job with its demand, with its fair share, with its GPUs alone."""
    gpus = gangs.gpus[at]
    allowed = gangs.node_allowed[gangs.constraint[at]]
    free, home = draft.free[:, :3], draft.home[at]
    with_best, with_fair, with_gpus = -1, -1, -1
    for node in range(len(gangs.kind_of_node)):
        if free[node, 0] < gpus or not allowed[node]:
            continue
        kind = gangs.kind_of_node[node]
        if with_best < 0 or tighter(free, node, with_best, home):
            if fits(draft, node, gpus, best[kind]):
                with_best = node
            if with_best < 0 and (with_fair < 0 or tighter(free, node, with_fair, home)):
                if fits(draft, node, gpus, fair[kind]):
                    with_fair = node
                if with_gpus < 0 or tighter(free, node, with_gpus, home):
                    with_gpus = node
    return with_best, with_fair, with_gpus


@njit(cache=True)
def fewest_nodes(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints, take: Ints) -> int:
    """Choose as few nodes as possible for a need, the last by best fit; how many, 0 without a place.

    Best fit is the node with the fewest free GPUs, then CPUs, then memory; of equals the job's own, then the
    first. `take` gets the GPUs on each.
    """
    nodes = len(take)
    allowed = gangs.node_allowed[gangs.constraint[at]]
    take[:] = 0
    fit = np.zeros(nodes, np.int64)
    total = 0
    for node in range(nodes):
        if allowed[node] and draft.free[node, 0] > 0:
            fit[node] = gpus_that_fit(draft, node, need[gangs.kind_of_node[node]])
            total += fit[node]
    if total < gangs.gpus[at]:
        return 0
    take_fewest_nodes(draft.free[:, :3], draft.home[at], gangs.gpus[at], nodes, fit, take)
    return int(np.count_nonzero(take))
