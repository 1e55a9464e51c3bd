"""The exact integral placement of a small cluster: every job's machines and point at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import highspy
import numpy as np

from muster.cluster.ledger_arrays import GPU, MICRO, Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.admission.knapsack.relaxation import quiet_solver
from muster.schedulers.allocation.drafting import add_part, set_amounts
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft

_CUT_SHORT = (highspy.HighsModelStatus.kSolutionLimit, highspy.HighsModelStatus.kTimeLimit)


@dataclass(frozen=True)
class PlacementEffort:
    """How much work an exact placement may be."""

    variables: int
    """Whole-number variables at most; a larger program is not tried."""
    nodes: int
    """Of branch and bound."""
    seconds: float
    """For the real world: in a simulation the same input would not give the same answer."""


class Exact(NamedTuple):
    """What the integer program said."""

    plan: PlacementDraft | None
    """None: too large to be tried, or nothing found."""
    cut_short: bool
    """Whether it ran out of nodes or seconds, so that there may be better plans."""


def exact_plan(gangs: Gangs, opened: PlacementDraft, served: Ints, effort: PlacementEffort) -> Exact:
    """The plan of most speed over the points worth choosing, each gang on one kind of machine.

    Whole numbers x[job, machine, point] count units of GPUs, y[job, point] says which point. A unit is the gang
    where one machine holds it, a whole machine where a gang is so many of them, else a GPU.
    """
    machines = np.flatnonzero(opened.free[:, 0] > 0)
    if not len(machines) or not opened.movable[served].all():
        return Exact(None, cut_short=False)
    classes, kinds, first_choice = gangs.classes[served], len(gangs.kinds), gangs.demands.first_choice
    first, last = first_choice[classes * kinds], first_choice[(classes + 1) * kinds]
    if int((last - first).sum()) * len(machines) > effort.variables:
        return Exact(None, cut_short=False)
    jobs = np.repeat(np.arange(len(served)), last - first)
    points = np.concatenate([np.arange(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True)])
    solver, x_first = _program(gangs, opened, served, machines, jobs, points)
    solver.setOptionValue("mip_rel_gap", 1e-6)
    solver.setOptionValue("mip_max_nodes", effort.nodes)
    solver.setOptionValue("time_limit", effort.seconds)
    solver.run()
    cut_short = solver.getModelStatus() in _CUT_SHORT
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Exact(None, cut_short)
    values = np.round(np.asarray(solver.getSolution().col_value)[x_first:]).astype(np.int64)
    values = values.reshape(len(points), len(machines))
    return Exact(_drafted(gangs, opened, served, machines, jobs, points, values), cut_short)


def _program(
    gangs: Gangs, opened: PlacementDraft, served: Ints, machines: Ints, jobs: Ints, points: Ints
) -> tuple[highspy.Highs, int]:
    """Rows: one point a job; GPUs of a point; GPUs, CPU, memory and storage of each machine."""
    count, width = len(points), len(machines)
    gpus = gangs.gpus[served][jobs]
    demand = gangs.demands.choice[points] / MICRO
    entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    y = np.arange(count)
    x = count + np.arange(count * width).reshape(count, width)
    entries.append((jobs, y, np.ones(count)))
    gang_rows = len(served) + np.arange(count)
    entries.append((gang_rows, y, -gpus.astype(np.float64)))
    unit = _unit(gangs, gpus, points)
    entries.append((np.repeat(gang_rows, width), x.ravel(), np.repeat(unit.astype(np.float64), width)))
    base = len(served) + count
    for resource in range(RESOURCE_COUNT):
        amount = unit * (np.ones(count) if resource == 0 else demand[:, resource])
        rows = np.broadcast_to(base + resource * width + np.arange(width), (count, width))
        entries.append((rows.ravel(), x.ravel(), np.repeat(amount, width)))
    units = np.full(RESOURCE_COUNT, MICRO)
    units[GPU] = 1
    free = opened.free[machines] / units
    of_kind = gangs.kind_of_node[machines] == _kind(gangs, points)[:, None]
    allowed = gangs.node_allowed[gangs.constraint[served]][jobs][:, machines] & of_kind
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = count * (1 + width), base + RESOURCE_COUNT * width
    program.col_cost_ = np.concatenate([-gpus * gangs.demands.choice_speed[points], np.zeros(count * width)])
    program.col_lower_ = np.zeros(program.num_col_)
    program.col_upper_ = np.concatenate(
        [np.ones(count), (allowed * gpus[:, None]).ravel().astype(np.float64)]
    )
    program.row_lower_ = np.concatenate(
        [np.ones(len(served)), np.zeros(count), np.full(RESOURCE_COUNT * width, -highspy.kHighsInf)]
    )
    program.row_upper_ = np.concatenate([np.ones(len(served)), np.zeros(count), free.T.ravel()])
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    order = np.lexsort((rows, columns))
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = np.searchsorted(columns[order], np.arange(program.num_col_ + 1)).astype(
        np.int32
    )
    program.a_matrix_.index_ = rows[order].astype(np.int32)
    program.a_matrix_.value_ = values[order]
    program.integrality_ = [highspy.HighsVarType.kInteger] * program.num_col_
    solver = quiet_solver()
    solver.passModel(program)
    return solver, count


def _drafted(
    gangs: Gangs, opened: PlacementDraft, served: Ints, machines: Ints, jobs: Ints, points: Ints, values: Ints
) -> PlacementDraft | None:
    """The plan that the whole numbers say; None where the solver's tolerance hid an overdraft."""
    plan = opened.copy()
    values = values * _unit(gangs, gangs.gpus[served][jobs], points)[:, None]
    for column in np.flatnonzero(values.any(axis=1)).tolist():
        for machine in np.flatnonzero(values[column]).tolist():
            at, node, gpus = int(served[jobs[column]]), int(machines[machine]), int(values[column, machine])
            set_amounts(plan, add_part(plan, at, node, gpus), gangs.demands.choice[points[column]])
    return None if plan.free.min() < 0 else plan


def _kind(gangs: Gangs, points: Ints) -> Ints:
    """The kind of machine that each point is of."""
    pairs: Ints = np.searchsorted(gangs.demands.first_choice, points, side="right") - 1
    return pairs % len(gangs.kinds)


def _unit(gangs: Gangs, gpus: Ints, points: Ints) -> Ints:
    """GPUs of each gang that stay together at each of its points."""
    of_machine = np.maximum(gangs.kinds["gpus"][_kind(gangs, points)], 1)
    units: Ints = np.where(gpus <= of_machine, gpus, np.where(gpus % of_machine == 0, of_machine, 1))
    return units
