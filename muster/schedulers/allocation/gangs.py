"""What allocators need to know about the jobs of a snapshot, as plain arrays for compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Ints, Rows
from muster.compiling import njit
from muster.schedulers.allocation.placement_draft import PlacementDraft, add_part, fits, set_amounts
from muster.schedulers.contract import Snapshot
from muster.speed.demands import ProfiledDemands
from muster.speed.input_pipeline import ModelTable


class Gangs(NamedTuple):
    """Jobs by position, their demands by class and kind of node."""

    gpus: Ints
    classes: Ints
    model: Ints
    constraint: Ints
    node_allowed: Bools
    """By constraint and node."""
    demands: ProfiledDemands
    kinds: Rows
    """One node of each kind."""
    kind_of_node: Ints
    models: ModelTable


def gangs_of(snapshot: Snapshot) -> Gangs:
    """Return the jobs of a snapshot."""
    jobs, profiles = snapshot.jobs, snapshot.resource_profiles
    gpus, model, node_allowed = jobs.gpus, jobs.model, snapshot.table.node_allowed
    classes, demands = profiles.of(model, gpus, jobs.requested_per_gpu)
    kinds, kind_of_node, models = profiles.kinds, profiles.kind_of_node, profiles.models
    return Gangs(gpus, classes, model, jobs.constraint, node_allowed, demands, kinds, kind_of_node, models)


@njit(cache=True)
def amount_per_gpu(kinds: Rows, kind: int) -> Ints:
    """Return what a node of this kind has for each GPU, by resource, at least 1: the unit of comparisons."""
    unit: Ints = np.maximum(kinds[kind]["capacity"] // max(kinds[kind]["gpus"], 1), 1)
    return unit


def request_above_share(gangs: Gangs, at: Ints) -> Bools:
    """Return which of these jobs request more beside a GPU than its share on some node: they are hardest to place."""
    kinds = np.flatnonzero(gangs.kinds["gpus"] > 0).tolist()
    share = np.array([amount_per_gpu(gangs.kinds, kind) for kind in kinds]).min(axis=0)
    above: Bools = (gangs.demands.requested[gangs.classes[at]] > share).any(axis=1)
    return above


@njit(cache=True)
def place_gang(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints, take: Ints) -> None:
    """Place a job on the nodes that were chosen for it; `need` is by kind of node and resource."""
    for node in range(len(take)):
        if take[node] > 0:
            set_amounts(draft, add_part(draft, at, node, take[node]), need[gangs.kind_of_node[node]])


@njit(cache=True)
def has_room(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints) -> bool:
    """Return whether all nodes of a job have room for a need instead of what it has; by kind and resource."""
    number = draft.first[at]
    while number >= 0:
        node_part = draft.node_parts[number]
        more = need[gangs.kind_of_node[node_part["node"]]] - node_part["amount"] // node_part["gpus"]
        if not fits(draft, node_part["node"], node_part["gpus"], more):
            return False
        number = node_part["next"]
    return True


@njit(cache=True)
def set_level(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints) -> None:
    """Set the amounts of all node parts of a job alike; `need` is by kind of node and resource."""
    number = draft.first[at]
    while number >= 0:
        set_amounts(draft, number, need[gangs.kind_of_node[draft.node_parts[number]["node"]]])
        number = draft.node_parts[number]["next"]


@njit(cache=True)
def model_on(gangs: Gangs, at: int, kind: int) -> int:
    """Return the record of a job's model that holds on a kind of node."""
    number: int = gangs.models[gangs.model[at]]["on_type"][gangs.kinds[kind]["gpu_type"]]
    return number
