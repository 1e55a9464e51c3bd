"""Assigning jobs to nodes so that the most demanding ones do not meet."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import NONE, Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.allocation.gangs import Gangs, request_above_share
from muster.schedulers.allocation.node_assignment_core import assign, deviations, share_out
from muster.schedulers.allocation.placement_draft import PlacementDraft


def assign_nodes(
    plan: PlacementDraft, gangs: Gangs, of_kind: Ints, served: Ints, ranked: Ints, wanted: Ints
) -> None:
    """Place the served jobs on what is free; those without a place leave their GPUs to others, by rank.

    Each goes to a node of its kind, by place in `served`, or to another if none of that kind has room.
    """
    share_out(plan, gangs)
    apart = deviations(gangs, of_kind, served, wanted)
    above = request_above_share(gangs, served)
    order = np.lexsort((-np.abs(apart).sum(axis=1), -gangs.gpus[served], ~above))
    assign(plan, gangs, served[order], of_kind[order], apart[order])
    left = int(gangs.gpus[served[plan.first[served] == NONE]].sum())
    if left:
        rest = ranked[(plan.first[ranked] == NONE) & (gangs.gpus[ranked] <= left)]
        rest = rest[np.cumsum(gangs.gpus[rest]) <= left]
        assign(plan, gangs, rest, np.zeros(len(rest), np.int64), np.zeros((len(rest), RESOURCE_COUNT)))
