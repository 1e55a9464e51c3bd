"""Stage 1 of Synergy's opt (§4.1): the best that one ideal machine with all CPUs and memory could do.

Jobs of one class are alike, so the linear program is over classes, however many jobs there are: how much of
a class's GPUs is at which point, on which kind of machine (Synergy's W and y with an index of machine types).
Its optimum bounds every plan that keeps all jobs at their fair speed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.distinct_rows import distinct_rows
from muster.cluster.ledger_arrays import MICRO, NONE, Floats, Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.admission.knapsack.columns import InfeasibleError, SolverTable
from muster.schedulers.admission.knapsack.relaxation import relax
from muster.schedulers.allocation.gangs import Gangs, may_use_kind
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.speed.points import corners, speed_at


@dataclass(frozen=True, eq=False)
class Pooled:
    """The optimum on the ideal machine; `group` are jobs of one class that may use the same kinds of machine."""

    bound: float
    """GPUs times speed, summed: no plan for these jobs has more."""
    served: Ints
    group_of: Ints
    """By place in `served`; -1: no machine that it may use has a GPU."""
    group: Ints
    """Of each point taken."""
    kind: Ints
    """Of machine, at it."""
    points: Ints
    """Amounts a GPU at it, by resource."""
    gpus: Floats
    """GPUs of the group that are at it."""


def pool_of(opened: PlacementDraft, gangs: Gangs) -> Ints:
    """Return what an opened draft may use, by kind of node: GPUs, then millionths; with what fixed jobs have."""
    pool = np.zeros((len(gangs.kinds), RESOURCE_COUNT), np.int64)
    np.add.at(pool, gangs.kind_of_node, opened.free)
    taken = opened.node_parts[: int(opened.used[0])]
    np.add.at(pool[:, 0], gangs.kind_of_node[taken["node"]], taken["gpus"])
    np.add.at(pool[:, 1:], gangs.kind_of_node[taken["node"]], taken["amount"][:, 1:])
    return pool


def pooled(gangs: Gangs, served: Ints, pool: Ints, fair: bool = True) -> Pooled:
    """Solve stage 1 for the served jobs; `pool` is what they may use: by kind GPUs, then millionths.

    Without `fair`, a job may wait, have less than its fair share, and more than a machine has for each GPU of its gang:
    the optimum then bounds every plan of every scheduler that runs some of these jobs, also if they do not all fit.

    Where machines differ, a job also chooses its kind of machine, and each kind's GPUs are limited too. Storage
    is not limited here: with it, speed is no longer under the chords between points and the bound would not hold.
    """
    kinds = np.flatnonzero(pool[:, 0] > 0)
    groups, group_of = _groups(gangs, served, kinds)
    none, nowhere = np.zeros(0, np.int64), np.zeros((0, RESOURCE_COUNT), np.int64)
    if not len(groups):
        return Pooled(0.0, served, group_of, none, none, nowhere, np.zeros(0))
    weight: Floats = np.zeros(len(groups))
    np.add.at(weight, group_of[group_of >= 0], gangs.gpus[served[group_of >= 0]])
    model = np.zeros(len(gangs.demands.best), np.int64)
    model[gangs.classes[served]] = gangs.model[served]
    group, point, speed, kind_of = [], [], [], []
    for number, (one, *may_use) in enumerate(groups.tolist()):
        for kind in kinds[np.array(may_use, np.bool_)].tolist():
            on_kind = int(gangs.models[model[one]]["on_type"][gangs.kinds[kind]["gpu_type"]])
            points, speeds = _points(gangs, one, kind, on_kind) if fair else _all_points(gangs, on_kind)
            group.append(np.full(len(points), number))
            point.append(points)
            speed.append(speeds)
            kind_of.append(np.full(len(points), kind))
    of_group, points, speeds = np.concatenate(group), np.concatenate(point), np.concatenate(speed)
    of_kind = np.concatenate(kind_of)
    if not fair:
        of_group, points, speeds, of_kind = _with_waiting(len(groups), of_group, points, speeds, of_kind)
    table = _table(of_group, points, speeds, of_kind, weight, pool, kinds, fair)
    try:
        relaxation = relax(table, none)
    except InfeasibleError:
        # The served need more than there is now: GPUs still on their way, or large requests.
        return Pooled(np.nan, served, group_of, none, none, nowhere, np.zeros(0))
    taken = relaxation.share > 1e-9
    columns = relaxation.active[taken]
    return Pooled(
        relaxation.bound * table.profit_unit,
        served,
        group_of,
        of_group[columns],
        of_kind[columns],
        points[columns],
        relaxation.share[taken] * weight[of_group[columns]],
    )


def pooled_that_fit(gangs: Gangs, served: Ints, pool: Ints) -> Pooled:
    """Stage 1 for the served jobs without those whose pins leave them too few GPUs."""
    return pooled(gangs, _that_fit(gangs, served, pool), pool)


def _that_fit(gangs: Gangs, served: Ints, pool: Ints) -> Ints:
    """The served jobs without those for which the GPUs that owners pin them to do not suffice."""
    kinds = np.flatnonzero(pool[:, 0] > 0)
    may_use = may_use_kind(gangs)[:, kinds][gangs.constraint[served]]
    if may_use.all():
        return served
    left = pool[kinds, 0].copy()
    fit = []
    for place in np.argsort(may_use.sum(axis=1), kind="stable").tolist():
        allowed = np.flatnonzero(may_use[place])
        upto = np.cumsum(left[allowed])
        if len(allowed) and gangs.gpus[served[place]] <= upto[-1]:
            fit.append(place)
            left[allowed] -= np.diff(np.minimum(upto, gangs.gpus[served[place]]), prepend=0)
    return served[np.sort(np.array(fit, np.int64))]


def points_of_jobs(gangs: Gangs, served: Ints, stage1: Pooled) -> tuple[Ints, Ints]:
    """Stage 2: the jobs of each group distributed over the points that stage 1 takes, largest points first.

    What each served job wants a GPU, by resource, and its kind of machine; the fair demand without a solution.
    """
    group_of = np.full(len(served), -1)
    group_of[np.isin(served, stage1.served)] = stage1.group_of
    of_kind = np.zeros(len(served), np.int64)
    wanted = gangs.demands.fair[gangs.classes[served], 0].copy()
    for one in np.unique(stage1.group):
        members = np.flatnonzero(group_of == one)
        ends = np.cumsum(gangs.gpus[served[members]])
        points = np.flatnonzero(stage1.group == one)
        points = points[np.lexsort((-stage1.points[points, 2], -stage1.points[points, 1]))]
        upto = np.cumsum(stage1.gpus[points]) + 1e-6
        at = np.minimum(np.searchsorted(upto, ends), len(points) - 1)
        of_kind[members] = stage1.kind[points[at]]
        fair = gangs.demands.fair[gangs.classes[served[members]], of_kind[members]]
        wanted[members] = np.maximum(fair, stage1.points[points[at]])
    return wanted, of_kind


def _groups(gangs: Gangs, served: Ints, kinds: Ints) -> tuple[Ints, Ints]:
    """The groups as rows (class, whether it may use each of `kinds`), and the group of each served job."""
    rows = np.column_stack([gangs.classes[served], may_use_kind(gangs)[:, kinds][gangs.constraint[served]]])
    reached = (rows[:, 1:] > 0).any(axis=1)
    group_of = np.full(len(served), -1)
    groups, group_of[reached] = distinct_rows(rows[reached])
    return groups, group_of


def _points(gangs: Gangs, number: int, kind: int, model: int) -> tuple[Ints, Floats]:
    machine = gangs.kinds[kind]
    if gangs.models[model]["n_cpus"] == 0:
        # A model without a profile is as fast with nothing but its request as with its share.
        return gangs.demands.requested[number : number + 1], np.array(
            [speed_at(gangs.models, model, machine["share"])]
        )
    limit, fair_speed = gangs.demands.limit[number, kind], gangs.demands.fair_speed[number, kind]
    requested = gangs.demands.requested[number]
    points, speeds = corners(gangs.models, model, limit, machine["share"], fair_speed, requested)
    return points, speeds


def _all_points(gangs: Gangs, model: int) -> tuple[Ints, Floats]:
    """Points whose mixtures are as fast as anything that a GPU of this job can have on a machine.

    Speed is linear in CPUs from none on, below its chords in memory between measured points, and flat below the
    first and above the last of them. So the corners of the measured grid, with no CPUs and with no memory as its lower
    edges, reach every speed with no more of anything. Reading from storage only slows down: it is left out.
    """
    entry = gangs.models[model]
    reference = float(entry["reference_seconds"])
    if entry["n_cpus"] == 0:
        return np.zeros((1, RESOURCE_COUNT), np.int64), np.array([reference / entry["compute_seconds"]])
    cpus, memory = entry["cpus"][: entry["n_cpus"]], entry["memory"][: entry["n_memory"]]
    seconds = entry["input_seconds"][: len(cpus), : len(memory)]
    points = np.zeros((len(cpus) + 1, len(memory), RESOURCE_COUNT), np.int64)
    points[1:, :, 1] = np.floor(cpus * MICRO)[:, None]
    points[:, 1:, 2] = np.floor(memory[1:] * MICRO)
    speeds = np.zeros(points.shape[:2])
    speeds[1:] = reference / seconds
    return points.reshape(-1, RESOURCE_COUNT), speeds.ravel()


def _with_waiting(
    groups: int, group: Ints, points: Ints, speeds: Floats, kind: Ints
) -> tuple[Ints, Ints, Floats, Ints]:
    """The columns, and for each group one of no kind: to wait."""
    group = np.append(group, np.arange(groups))
    order = np.argsort(group, kind="stable")
    points = np.concatenate([points, np.zeros((groups, RESOURCE_COUNT), np.int64)])
    speeds, kind = np.append(speeds, np.zeros(groups)), np.append(kind, np.full(groups, NONE))
    return group[order], points[order], speeds[order], kind[order]


def _table(
    group: Ints, points: Ints, speeds: Floats, kind: Ints, weight: Floats, pool: Ints, kinds: Ints, fair: bool
) -> SolverTable:
    """The columns as the shared solver wants them: a class takes one unit of its points in all."""
    one_kind = fair and len(kinds) == 1
    usages, capacities = [], []
    for of_kind in kinds.tolist():
        for resource in (1, 2) if one_kind else (0, 1, 2):
            amount = points[:, resource] / MICRO if resource else np.ones(len(points))
            capacity = pool[of_kind, resource] / (MICRO if resource else 1)
            usage = np.where(kind == of_kind, amount, 0.0) * weight[group]
            usages.append(usage / capacity if capacity > 0 else usage)
            capacities.append(1.0 if capacity > 0 else 0.0)
    profit = speeds * weight[group]
    unit = float(profit.max()) or 1.0
    return SolverTable(
        group=group,
        starts=np.searchsorted(group, np.arange(len(weight))),
        profit=profit / unit,
        usage=np.column_stack(usages),
        capacity=np.array(capacities),
        original=np.arange(len(group)),
        profit_unit=unit,
    )
