"""What allocators need to know about the jobs of a snapshot, as plain arrays for compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import EVEN_GANGS, NONE, Bools, Floats, Ints, Rows
from muster.schedulers.contract import Snapshot
from muster.speed.demands import ProfiledDemands, kinds_allowed
from muster.speed.input_pipeline import ModelTable


class GangForms(NamedTuple):
    """How fast jobs are on the forms that their places can have (`speed.network.forms`)."""

    line: Ints
    """By position: the line of `kinds` and `speeds`; empty: every place is as fast as any other."""
    kinds: Ints
    speeds: Floats
    rack_of_node: Ints
    island_of_node: Ints
    """How many GPUs are in an island of it."""
    share_anywhere: Floats
    """By line of `speeds`: the slowest as a share of the fastest."""


_NONE = np.zeros(0, np.int64)
ALL_ALIKE = GangForms(_NONE, _NONE, np.zeros((0, 0)), _NONE, _NONE, np.zeros(0))


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
    weight: Floats
    """What the speed of each job counts: its GPUs, or what the scheduler says."""
    forms: GangForms = ALL_ALIKE
    even: bool = False
    """The same number of GPUs on each node of a job."""
    exact_nodes: Ints = _NONE
    """By position: nodes that the job has to be on; 0: any number."""
    preferred: Ints = _NONE
    """By position: the constraint of the nodes that the job should take first; `NONE`: all that it may use."""


def gangs_of(snapshot: Snapshot) -> Gangs:
    """Return the jobs of a snapshot; the speed of each counts its GPUs."""
    jobs, profiles = snapshot.jobs, snapshot.resource_profiles
    gpus, model, node_allowed = jobs.gpus, jobs.model, snapshot.table.node_allowed
    classes, demands = profiles.of(model, gpus, jobs.requested_per_gpu)
    kinds, kind_of_node, models = profiles.kinds, profiles.kind_of_node, profiles.models
    weight = gpus.astype(np.float64)
    even = bool(snapshot.ledger.books.totals[EVEN_GANGS])
    return Gangs(
        gpus,
        classes,
        model,
        jobs.constraint,
        node_allowed,
        demands,
        kinds,
        kind_of_node,
        models,
        weight,
        even=even,
        exact_nodes=jobs.exact_nodes,
        preferred=np.full(len(jobs), NONE),
    )


def may_use_kind(gangs: Gangs) -> Bools:
    """Return by constraint and kind of node whether jobs may use some node of the kind."""
    return kinds_allowed(gangs.node_allowed, gangs.kind_of_node, len(gangs.kinds))


def usable_kinds(gangs: Gangs) -> Bools:
    """Return by job and kind of node whether the job may use some node of the kind, and that has GPUs."""
    usable: Bools = (may_use_kind(gangs) & (gangs.kinds["gpus"] > 0))[gangs.constraint]
    return usable


def speed_by_kind(gangs: Gangs) -> tuple[Floats, Floats]:
    """Return how fast each job is alone on nodes of each kind, and on the best kind with GPUs that it may use."""
    speed: Floats = gangs.demands.best_speed[gangs.classes]
    return speed, np.where(usable_kinds(gangs), speed, 0.0).max(axis=1)


def places_differ(snapshot: Snapshot, gpus: Ints) -> bool:
    """Return whether the network can hurt some of the jobs with so many GPUs each."""
    return snapshot.forms is not None and snapshot.forms.some_sensitive(snapshot.jobs.model, gpus)


def forms_of(snapshot: Snapshot, gpus: Ints) -> GangForms:
    """Return the forms of the jobs with so many GPUs each; `ALL_ALIKE` where the network hurts none."""
    if snapshot.forms is None or not places_differ(snapshot, gpus):
        return ALL_ALIKE
    line, forms = snapshot.forms.of(snapshot.jobs.model, gpus)
    nodes = snapshot.ledger.books.nodes
    racks, islands = (np.ascontiguousarray(nodes[of], np.int64) for of in ("rack", "island"))
    return GangForms(line, forms.kinds, forms.speeds, racks, islands, forms.share_anywhere)


def request_above_share(gangs: Gangs, at: Ints) -> Bools:
    """Return which of these jobs request more beside a GPU than its share on some node: they are hardest to place."""
    requested = gangs.demands.requested[gangs.classes[at]]
    if not requested.any():
        return np.zeros(len(at), np.bool_)
    kinds = gangs.kinds[gangs.kinds["gpus"] > 0]
    share = np.maximum(kinds["capacity"] // kinds["gpus"][:, None], 1).min(axis=0)
    above: Bools = (requested > share).any(axis=1)
    return above
