"""What the allotments ask about the jobs of a view, as plain arrays for compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Ints, Rows
from muster.compiling import njit
from muster.schedulers.allocation.placement_draft import PlacementDraft, furnish, sit
from muster.schedulers.contract import Snapshot
from muster.speed.demands import Demands
from muster.speed.input_pipeline import ModelTable


class Gangs(NamedTuple):
    """Jobs by position, their demands by class and kind of machine."""

    gpus: Ints
    classes: Ints
    model: Ints
    constraint: Ints
    node_allowed: Bools
    """By constraint and machine."""
    demands: Demands
    kinds: Rows
    """One machine of each kind."""
    kind_of_node: Ints
    models: ModelTable


def gangs_of(snapshot: Snapshot) -> Gangs:
    """The jobs of a view."""
    jobs, resource_profiles = snapshot.jobs, snapshot.resource_profiles
    gpus, model = jobs.gpus, jobs.model
    classes, demands = resource_profiles.of(model, gpus, jobs.requested_per_gpu)
    return Gangs(
        gpus,
        classes,
        model,
        jobs.constraint,
        snapshot.table.node_allowed,
        demands,
        resource_profiles.kinds,
        resource_profiles.kind_of_node,
        resource_profiles.models,
    )


def ask_above_share(gangs: Gangs, at: Ints) -> Bools:
    """Which of these jobs request more beside a GPU than its share on some machine: they are the hardest to place."""
    share = np.where(gangs.kinds["gpus"][:, None] > 0, gangs.kinds["share"], np.iinfo(np.int64).max).min(
        axis=0
    )
    above: Bools = (gangs.demands.requested[gangs.classes[at]] > share).any(axis=1)
    return above


def fair_per_gpu(snapshot: Snapshot) -> Ints:
    """The least that each job holds beside a GPU where all are served fairly, on the machines that suit it best."""
    jobs = snapshot.jobs
    classes, demands = snapshot.resource_profiles.of(jobs.model, jobs.gpus, jobs.requested_per_gpu)
    with_gpus = snapshot.resource_profiles.kinds["gpus"] > 0
    fair: Ints = demands.fair[:, with_gpus].min(axis=1)[classes]
    return fair


@njit(cache=True)
def requested_by_kind(gangs: Gangs, at: int) -> Ints:
    """What a job requests beside a GPU, by kind of machine and resource."""
    requested = np.zeros((len(gangs.kinds), 4), np.int64)
    requested[:] = gangs.demands.requested[gangs.classes[at]]
    return requested


@njit(cache=True)
def place_gang(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints, take: Ints) -> None:
    """Seat a job on the machines that were chosen for it; `need` is by kind of machine and resource."""
    for node in range(len(take)):
        if take[node] > 0:
            furnish(draft, sit(draft, at, node, take[node]), need[gangs.kind_of_node[node]])


@njit(cache=True)
def model_on(gangs: Gangs, at: int, kind: int) -> int:
    """The record of a job's model that holds on a kind of machine."""
    number: int = gangs.models[gangs.model[at]]["on_type"][gangs.kinds[kind]["gpu_type"]]
    return number
