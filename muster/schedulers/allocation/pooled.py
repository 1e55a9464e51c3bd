"""Stage 1 of Synergy's opt (§4.1): the best that one ideal machine with all CPUs and memory could do.

Jobs of one class are alike, so the linear program is over classes, however many jobs there are: how much of
a class's GPUs is at which point. Its optimum bounds every plan that keeps all jobs at their fair speed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.books import MICRO, Floats, Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.selection.knapsack.columns import InfeasibleError, Table
from muster.schedulers.selection.knapsack.relaxation import relax
from muster.speed.points import corners, speed_at


@dataclass(frozen=True, eq=False)
class Pooled:
    """The optimum on the ideal machine."""

    bound: float
    """GPUs times speed, summed: no plan for these jobs has more."""
    classes: Ints
    """Class of each point taken."""
    points: Ints
    """Amounts a GPU at it, by resource."""
    gpus: Floats
    """GPUs of the class that are at it."""


def pooled(gangs: Gangs, served: Ints, pool: Ints) -> Pooled:
    """Solve stage 1 for the served jobs; `pool` is what they may use: by kind GPUs, then millionths.

    Where machines differ, a job also chooses its kind of machine, and each kind's GPUs are limited too. Storage
    is not limited here: with it, speed is no longer under the chords between points and the bound would not hold.
    """
    classes, at_class = np.unique(gangs.classes[served], return_inverse=True)
    kinds = np.flatnonzero(pool[:, 0] > 0)
    if not len(classes) or not len(kinds):
        return Pooled(0.0, classes[:0], np.zeros((0, 4), np.int64), np.zeros(0))
    weight: Floats = np.zeros(len(classes))
    np.add.at(weight, at_class, gangs.gpus[served])
    model = np.zeros(len(gangs.demands.best), np.int64)
    model[gangs.classes[served]] = gangs.model[served]
    group, point, speed, kind_of = [], [], [], []
    for number, one in enumerate(classes.tolist()):
        for kind in kinds.tolist():
            points, speeds = _points(gangs, one, kind, int(model[one]))
            group.append(np.full(len(points), number))
            point.append(points)
            speed.append(speeds)
            kind_of.append(np.full(len(points), kind))
    groups, points, speeds = np.concatenate(group), np.concatenate(point), np.concatenate(speed)
    table = _table(groups, points, speeds, np.concatenate(kind_of), weight, pool, kinds)
    try:
        relaxation = relax(table, np.zeros(0, np.int64))
    except InfeasibleError:
        # Some of the served are chosen for GPUs that are still on their way; what they add cannot be known yet.
        return Pooled(np.nan, classes[:0], np.zeros((0, 4), np.int64), np.zeros(0))
    taken = relaxation.share > 1e-9
    columns = relaxation.active[taken]
    return Pooled(
        relaxation.bound * table.profit_unit,
        classes[groups[columns]],
        points[columns],
        relaxation.share[taken] * weight[groups[columns]],
    )


def _points(gangs: Gangs, number: int, kind: int, model: int) -> tuple[Ints, Floats]:
    machine = gangs.kinds[kind]
    if gangs.models[model]["n_cpus"] == 0:
        # A model without a profile is as fast with nothing as with its share.
        return np.zeros((1, 4), np.int64), np.array([speed_at(gangs.models, model, machine["share"])])
    limit, fair_speed = gangs.demands.limit[number, kind], gangs.demands.fair_speed[number, kind]
    points, speeds = corners(gangs.models, model, limit, machine["share"], fair_speed)
    return points, speeds


def _table(
    group: Ints, points: Ints, speeds: Floats, kind: Ints, weight: Floats, pool: Ints, kinds: Ints
) -> Table:
    """The columns as the shared solver wants them: a class takes one unit of its points in all."""
    one_kind = len(kinds) == 1
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
    return Table(
        group=group,
        starts=np.searchsorted(group, np.arange(len(weight))),
        profit=profit / unit,
        usage=np.column_stack(usages),
        capacity=np.array(capacities),
        original=np.arange(len(group)),
        profit_unit=unit,
    )
