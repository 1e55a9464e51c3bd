"""The best placement of the jobs of a small cluster: the nodes of each and what it has beside its GPUs, at once.

A gang may be on any nodes of any kinds. Its part on each has amounts of its own, and the slowest part counts. No job is
slower than with the GPU-proportional share of the slowest of its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import highspy
import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.allocation.drafting import add_part, set_amounts
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.integer_program import IntegerProgram
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.stretches import Stretch, stretches
from muster.speed.points import speed_at

_CUT_SHORT = (highspy.HighsModelStatus.kSolutionLimit, highspy.HighsModelStatus.kTimeLimit)
_GAP = 1e-3
"""Of the optimum, at which the search ends."""
_WHOLE_POINT = 1e-6
"""A mixture so close to one of its points is that point: the solver's tolerance."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class PlacementEffort:
    """How much work an exact placement may be."""

    variables: int
    """Columns at most; a larger program is not tried."""
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


class _Part(NamedTuple):
    """GPUs of a job on one node that have a mixture of the points of a stretch: the columns, and what they mean."""

    at: int
    """The job's position."""
    node: int
    gpus: int
    taken: int
    """The column that says whether the job has this part."""
    points: list[int]
    """The columns of the mixture."""
    stretch: Stretch


class _Way(NamedTuple):
    """A part that a job may have."""

    place: int
    """Of the node, among those with free GPUs."""
    gpus: int
    stretch: Stretch


def exact_plan(gangs: Gangs, opened: PlacementDraft, served: Ints, effort: PlacementEffort) -> Exact:
    """Return the plan of most weighted speed in which all served jobs run.

    In a program that would be too large, no gang is spread that one node could hold, and one of so many whole nodes
    takes those.
    """
    nodes = np.flatnonzero(opened.free[:, 0] > 0)
    too_large = len(served) * len(nodes) > effort.variables
    if too_large or not len(nodes) or not opened.movable[served].all():
        return Exact(None, cut_short=False)
    ways = _ways(gangs, opened, served, nodes, spread=True)
    if _count(ways) > effort.variables:
        ways = _ways(gangs, opened, served, nodes, spread=False)
    if _count(ways) > effort.variables or not all(ways):
        return Exact(None, cut_short=False)
    program, parts = _written(gangs, opened, served, nodes, ways)
    solver = program.solver()
    solver.setOptionValue("mip_rel_gap", _GAP)
    solver.setOptionValue("mip_max_nodes", effort.nodes)
    solver.setOptionValue("time_limit", effort.seconds)
    solver.run()
    cut_short = solver.getModelStatus() in _CUT_SHORT
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Exact(None, cut_short)
    values = np.asarray(solver.getSolution().col_value)
    plan = _drafted(gangs, opened, parts, values, np.floor)
    if plan is None:
        plan = _drafted(gangs, opened, parts, values, np.rint)
    return Exact(plan, cut_short)


def _count(ways: list[list[_Way]]) -> int:
    """Return how many columns the ways of all jobs are."""
    return sum(1 + len(way.stretch.speeds) for of_job in ways for way in of_job)


def _ways(gangs: Gangs, opened: PlacementDraft, served: Ints, nodes: Ints, spread: bool) -> list[list[_Way]]:
    """Return the parts that each served job may have."""
    of_kind: dict[tuple[int, ...], list[_Way]] = {}
    known: dict[tuple[int, ...], list[Stretch]] = {}
    found = []
    for at in served.tolist():
        alike = int(gangs.classes[at]), int(gangs.constraint[at]), int(gangs.gpus[at])
        if alike not in of_kind:
            of_kind[alike] = _ways_of(gangs, opened, at, nodes, spread, known)
        found.append(of_kind[alike])
    return found


def _ways_of(
    gangs: Gangs,
    opened: PlacementDraft,
    at: int,
    nodes: Ints,
    spread: bool,
    known: dict[tuple[int, ...], list[Stretch]],
) -> list[_Way]:
    """Return the parts that a job may have; `known` keeps stretches by class, kind of node and amounts."""
    allowed = np.flatnonzero(gangs.node_allowed[gangs.constraint[at]][nodes])
    least = float(_fair_speeds(gangs, at)[gangs.kind_of_node[nodes[allowed]]].min(initial=np.inf))
    ways = []
    for place in allowed.tolist():
        node = int(nodes[place])
        for gpus in _sizes(gangs, opened, at, node, spread):
            most = opened.free[node] // gpus
            key = (int(gangs.classes[at]), int(gangs.kind_of_node[node]), *most.tolist())
            if key not in known:
                known[key] = _stretches(gangs, at, node, most, least)
            ways += [_Way(place, gpus, stretch) for stretch in known[key]]
    return ways


def _written(
    gangs: Gangs, opened: PlacementDraft, served: Ints, nodes: Ints, ways: list[list[_Way]]
) -> tuple[IntegerProgram, list[_Part]]:
    """Return the program, and what its columns mean."""
    program = IntegerProgram()
    units = np.where(np.arange(opened.free.shape[1]) == 0, 1.0, 1e-6)
    limits = [[program.row(-np.inf, float(amount)) for amount in opened.free[node] * units] for node in nodes]
    parts: list[_Part] = []
    for at, of_job in zip(served.tolist(), ways, strict=True):
        own = []
        for way in of_job:
            alone = float(gangs.weight[at]) if way.gpus == gangs.gpus[at] else 0.0
            taken, points = _add_part(program, limits[way.place], way, alone)
            own.append(_Part(at, int(nodes[way.place]), way.gpus, taken, points, way.stretch))
        _bind(program, gangs, at, own)
        parts += own
    return program, parts


def _sizes(gangs: Gangs, opened: PlacementDraft, at: int, node: int, spread: bool) -> list[int]:
    """Return how many GPUs of a node a job may have."""
    gpus, free = int(gangs.gpus[at]), int(opened.free[node, 0])
    most = int(gangs.kinds[gangs.kind_of_node[node]]["gpus"])
    sizes = range(1, min(gpus, free) + 1)
    if spread or (gpus > most and gpus % most):
        return list(sizes)
    return [size for size in sizes if size == min(gpus, most)]


def _stretches(gangs: Gangs, at: int, node: int, most: Ints, least: float) -> list[Stretch]:
    """Return what each GPU of a job may have on a node, at most so much."""
    kind = gangs.kind_of_node[node]
    on_type = int(gangs.models[gangs.model[at]]["on_type"][gangs.kinds[kind]["gpu_type"]])
    requested = gangs.demands.requested[gangs.classes[at]]
    return stretches(gangs.models, on_type, most, gangs.kinds[kind]["share"], requested, least)


def _fair_speeds(gangs: Gangs, at: int) -> Floats:
    """Return the speed of a job with its share, by kind of node."""
    speeds: Floats = gangs.demands.fair_speed[gangs.classes[at]]
    return speeds


def _add_part(program: IntegerProgram, limits: list[int], way: _Way, weight: float) -> tuple[int, list[int]]:
    """Add a part; the column that says whether it is taken, and those of its mixture, whose speeds count `weight`."""
    taken = program.column(0.0, 1.0, whole=True)
    program.entries.append((limits[0], taken, float(way.gpus)))
    points = []
    for amounts, speed in zip(way.stretch.points.tolist(), way.stretch.speeds.tolist(), strict=True):
        point = taken if len(way.stretch.speeds) == 1 else program.column(0.0, 1.0)
        program.cost[point] = -weight * speed
        points.append(point)
        program.entries += [
            (row, point, way.gpus * amount * 1e-6)
            for row, amount in zip(limits[1:], amounts[1:], strict=True)
            if amount
        ]
    if len(points) > 1:
        program.row(0.0, 0.0, dict.fromkeys(points, 1.0) | {taken: -1.0})
    return taken, points


def _bind(program: IntegerProgram, gangs: Gangs, at: int, parts: list[_Part]) -> None:
    """Add the rows of one job: all its GPUs, one part a node, the speed of the slowest, at least the fair speed."""
    gpus = int(gangs.gpus[at])
    program.row(gpus, gpus, {part.taken: float(part.gpus) for part in parts})
    apart = [part for part in parts if part.gpus < gpus]
    whole = {part.taken: 1.0 for part in parts if part.gpus == gpus}
    speed_of = {
        point: float(speed)
        for part in parts
        for point, speed in zip(part.points, part.stretch.speeds, strict=True)
    }
    fastest = max(speed_of.values(), default=0.0)
    total = {point: speed_of[point] for part in parts if part.gpus == gpus for point in part.points}
    if apart:
        gang = program.column(float(gangs.weight[at]), fastest)
        total[gang] = 1.0
        mean = {gang: 1.0}
        for part in apart:
            mean |= {point: -speed_of[point] * part.gpus / gpus for point in part.points}
        program.row(-np.inf, 0.0, mean)
        for node in sorted({part.node for part in apart}):
            here = [part for part in apart if part.node == node]
            program.row(-np.inf, 1.0, dict.fromkeys((part.taken for part in here), 1.0) | whole)
            slowest = {gang: 1.0}
            for part in here:
                for point in part.points:
                    slowest[point] = -speed_of[point] + slowest.get(point, 0.0)
                slowest[part.taken] = fastest + slowest.get(part.taken, 0.0)
            program.row(-np.inf, fastest, slowest)
    _keep_fair(program, gangs, at, parts, total)


def _keep_fair(
    program: IntegerProgram, gangs: Gangs, at: int, parts: list[_Part], total: dict[int, float]
) -> None:
    """Add the row that keeps a job at the fair speed of the slowest of its nodes; nodes alike need none."""
    fair = _fair_speeds(gangs, at)
    kinds = sorted({int(gangs.kind_of_node[part.node]) for part in parts})
    if len({float(fair[kind]) for kind in kinds}) < 2:
        return
    slowest = {kind: program.column(0.0, 1.0, whole=True) for kind in kinds}
    program.row(1.0, 1.0, dict.fromkeys(slowest.values(), 1.0))
    for kind, column in slowest.items():
        there = {part.taken: 1.0 for part in parts if gangs.kind_of_node[part.node] == kind}
        program.row(0.0, np.inf, there | {column: -1.0})
    program.row(0.0, np.inf, total | {column: -float(fair[kind]) for kind, column in slowest.items()})


def _drafted(
    gangs: Gangs, opened: PlacementDraft, parts: list[_Part], values: Floats, rounded: np.ufunc
) -> PlacementDraft | None:
    """Return the plan that the solution says, with rounded amounts; None if a node is overdrawn or a job too slow."""
    plan = opened.copy()
    slowest: dict[int, tuple[float, float]] = {}
    for part in parts:
        if values[part.taken] < 0.5:
            continue
        kind = gangs.kind_of_node[part.node]
        on_type = int(gangs.models[gangs.model[part.at]]["on_type"][gangs.kinds[kind]["gpu_type"]])
        amounts = _mixture(part, values, rounded)
        set_amounts(plan, add_part(plan, part.at, part.node, part.gpus), amounts)
        speed, fair = slowest.get(part.at, (np.inf, np.inf))
        speed = min(speed, speed_at(gangs.models, on_type, amounts))
        slowest[part.at] = speed, min(fair, float(_fair_speeds(gangs, part.at)[kind]))
    fair_enough = all(speed >= fair * (1 - _ROUNDING) for speed, fair in slowest.values())
    return plan if plan.free.min() >= 0 and fair_enough else None


def _mixture(part: _Part, values: Floats, rounded: np.ufunc) -> Ints:
    """Return what a part has beside each GPU: a point, or CPUs between two of them."""
    shares = values[part.points] / values[part.points].sum()
    nearest = int(np.argmax(shares))
    amounts: Ints = part.stretch.points[nearest].copy()
    if shares[nearest] < 1 - _WHOLE_POINT:
        amounts[1] = int(rounded(shares @ part.stretch.points[:, 1]))
    return amounts
