"""The two ways in which the Synergy authors' program chooses servers for a job with a fixed need a GPU."""

from __future__ import annotations

from typing import Literal

from muster.cluster.ledger_arrays import Bools, Ints
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft, fits, gpus_that_fit

GpuChoice = Literal["first-fit", "consolidating"]


@njit(cache=True)
def pick(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints, consolidating: bool, take: Ints) -> bool:
    """Choose servers for a job; `take` gets the GPUs on each. `need` is by kind of machine and resource."""
    nodes = len(take)
    gpus, kind_of_node = gangs.gpus[at], gangs.kind_of_node
    allowed = gangs.node_allowed[gangs.constraint[at]]
    if not consolidating:
        left = gpus
        for node in range(nodes):
            take[node] = 0
            if left > 0 and allowed[node] and draft.free[node, 0] > 0:
                take[node] = min(left, gpus_that_fit(draft, node, need[kind_of_node[node]]))
                left -= take[node]
        return bool(left == 0)
    take[:] = 0
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
    """A GPU at a time from the server with the fewest free GPUs; a server that cannot give one is left."""
    room = draft.free[:, 0].copy()
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
        if fits(draft, best, take[best] + 1, need[kind_of_node[best]]):
            take[best] += 1
            room[best] -= 1
            gpus -= 1
        else:
            room[best] = -1
    return True
