"""An upper bound of any plan on a few machines: each machine has limits of its own, and jobs come whole or not at all.

The integer program counts, for each group of equal jobs and each machine, the parts of so many GPUs there, and what
each part has beside them. Branch and bound may end early: what it has proven by then is the bound.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import MICRO, Floats, Ints
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.integer_program import IntegerProgram
from muster.speed.input_pipeline import ModelTable

MOST_COLUMNS = 800
"""A larger program is not tried: one pooled machine stands for all."""
_NODES = 20
_GAP = 0.01
_SAFETY = 1 + 1e-6
"""The solver's tolerance of a feasible row."""


_Edge = tuple[float, Floats, Floats]
"""An amount of memory, and numbers of CPUs with the speeds there."""


class GangPart(NamedTuple):
    """Points whose mixtures are at least as fast as any amounts in some part of a model's table."""

    cpus: Floats
    memory: Floats
    speed: Floats


def placed_bound(gangs: Gangs, served: Ints, usable: Ints) -> float:
    """Return the most weighted speed that any plan for some of these jobs could reach; NaN: the program is too large.

    `usable` is what each node has: GPUs, then millionths. A gang may be on any machines, with other amounts on each of
    them, and counts the mean of its parts, which is no less than the slowest. Storage is not limited.
    """
    rows = np.column_stack([gangs.model[served], gangs.gpus[served], gangs.constraint[served]])
    keyed = np.column_stack([rows, gangs.weight[served]])
    groups, first, count = np.unique(keyed, axis=0, return_index=True, return_counts=True)
    machines = np.flatnonzero(usable[:, 0] > 0)
    amounts = usable[machines] / np.array([1, *[MICRO] * (usable.shape[1] - 1)])
    if int(count.sum()) * len(machines) > MOST_COLUMNS:
        return float("nan")
    program = IntegerProgram()
    limits = [[program.row(-np.inf, float(amount)) for amount in node[:3]] for node in amounts]
    known: dict[tuple[int, float, float], list[GangPart]] = {}
    for number, (*_, constraint, weight) in enumerate(groups.tolist()):
        model, gpus, *_ = rows[first[number]].tolist()
        jobs = program.column(0.0, float(count[number]), whole=True)
        gang = program.row(0.0, 0.0)
        program.entries.append((gang, jobs, -float(gpus)))
        allowed = gangs.node_allowed[int(constraint)][machines]
        for at in np.flatnonzero(allowed).tolist():
            node = amounts[at]
            on_type = int(
                gangs.models[model]["on_type"][gangs.kinds[gangs.kind_of_node[machines[at]]]["gpu_type"]]
            )
            for part in range(1, min(gpus, int(node[0])) + 1):
                key = (on_type, float(node[1]) / part, float(node[2]) / part)
                if key not in known:
                    known[key] = pieces(gangs.models, *key)
                for piece in known[key]:
                    _add_piece(
                        program, limits[at], gang, piece, (part, weight / gpus, float(count[number] * gpus))
                    )
                if len(program.cost) > MOST_COLUMNS:
                    return float("nan")
    return _bound(program) if program.entries else 0.0


def _bound(program: IntegerProgram) -> float:
    """Return the most that a short branch and bound leaves possible."""
    solver = program.solver()
    solver.setOptionValue("mip_rel_gap", _GAP)
    solver.setOptionValue("mip_max_nodes", _NODES)
    solver.run()
    return -float(solver.getInfo().mip_dual_bound) * _SAFETY


def _add_piece(
    program: IntegerProgram, limits: list[int], gang: int, piece: GangPart, of_part: tuple[int, float, float]
) -> None:
    """Parts of so many GPUs on one machine with amounts of one piece: how many there are, and their mixture."""
    part, weight, most = of_part
    parts = program.column(0.0, most // part, whole=True)
    mixed = program.row(0.0, 0.0)
    program.entries += [(mixed, parts, -1.0), (gang, parts, float(part)), (limits[0], parts, float(part))]
    for cpus, memory, speed in zip(*(values.tolist() for values in piece), strict=True):
        point = program.column(part * weight * speed, most)
        program.entries.append((mixed, point, 1.0))
        if cpus:
            program.entries.append((limits[1], point, part * cpus))
        if memory:
            program.entries.append((limits[2], point, part * memory))


def pieces(models: ModelTable, model: int, most_cpus: float, most_memory: float) -> list[GangPart]:
    """Return pieces that cover all that a GPU can have of up to these amounts.

    Speed at a measured amount of memory is linear in CPUs from point to point, from none on. Between two of them the
    seconds are mixed, so speed is below the chords in memory, and at a fixed amount concave in CPUs between points.
    Below the least measured memory it is flat. A piece is a band of memory and a stretch of CPUs in which both of
    its edges bend down only; where the limit cuts a band, tangents lie above that edge.
    """
    entry = models[model]
    reference = float(entry["reference_seconds"])
    if entry["n_cpus"] == 0:
        return [GangPart(np.zeros(1), np.zeros(1), np.array([reference / float(entry["compute_seconds"])]))]
    cpus = np.concatenate([[0.0], entry["cpus"][: entry["n_cpus"]]])
    memory = entry["memory"][: entry["n_memory"]].copy()
    speeds = np.zeros((len(memory), len(cpus)))
    speeds[:, 1:] = np.divide(reference, entry["input_seconds"][: len(cpus) - 1, : len(memory)].T)
    inside = int((memory <= most_memory).sum()) if most_memory >= memory[0] else 1
    edges = [(0.0 if at == 0 else float(memory[at]), cpus, speeds[at]) for at in range(inside)]
    if 0 < inside < len(memory) and most_memory > memory[inside - 1]:
        part = (most_memory - memory[inside - 1]) / (memory[inside] - memory[inside - 1])
        edges.append((most_memory, *_above_mixture(cpus, speeds[inside - 1], speeds[inside], part)))
    edges = [(amount, *_up_to(axis, line, most_cpus)) for amount, axis, line in edges]
    bands: list[list[_Edge]] = [list(band) for band in pairwise(edges)] or [edges]
    found = []
    for band in bands:
        bends = [_bends_up(axis, line) for _, axis, line in band]
        cuts = sorted({0.0, min(most_cpus, float(cpus[-1])), *(cut for edge in bends for cut in edge)})
        for left, right in pairwise(cuts):
            found.append(_piece(band, left, right))
    return found


def _piece(band: list[_Edge], left: float, right: float) -> GangPart:
    """The points of a band's edges between two numbers of CPUs."""
    points = []
    for amount, axis, line in band:
        within = axis[(axis > left) & (axis < right)]
        ends = np.concatenate([[left], within, [right]])
        points.append((ends, np.full(len(ends), amount), np.interp(ends, axis, line)))
    return GangPart(*(np.concatenate(part) for part in zip(*points, strict=True)))


def _up_to(axis: Floats, line: Floats, most: float) -> tuple[Floats, Floats]:
    """The edge up to a number of CPUs."""
    if most >= axis[-1]:
        return axis, line
    kept = axis < most
    return np.append(axis[kept], most), np.append(line[kept], np.interp(most, axis, line))


def _bends_up(axis: Floats, line: Floats) -> list[float]:
    """Where the slope rises: mixtures across such a point would be too fast."""
    slopes = np.diff(line) / np.diff(axis)
    rises: list[float] = axis[1:-1][np.diff(slopes) > 1e-9 * np.abs(slopes).max()].tolist()
    return rises


def _above_mixture(axis: Floats, below: Floats, above: Floats, part: float) -> tuple[Floats, Floats]:
    """A line that is nowhere below the speed at an amount of memory between two measured ones.

    Between two CPU points that speed is concave: it is below its tangents at both of them, which meet once.
    """
    ends = [(float(axis[0]), 0.0)]
    for at in range(len(axis) - 1):
        width = axis[at + 1] - axis[at]
        reached, slopes = [], []
        for side in (at, at + 1):
            low, high = below[side], above[side]
            rise_low, rise_high = (below[at + 1] - below[at]) / width, (above[at + 1] - above[at]) / width
            if low <= 0 or high <= 0:
                reached.append(0.0)
                slopes.append(_mixed(rise_low, rise_high, part))
                continue
            speed = _mixed(low, high, part)
            reached.append(speed)
            slopes.append(speed**2 * ((1 - part) * rise_low / low**2 + part * rise_high / high**2))
        if slopes[0] > slopes[1] * (1 + 1e-9):
            meet = (reached[1] - reached[0] - slopes[1] * width) / (slopes[0] - slopes[1])
            if 1e-9 * width < meet < width * (1 - 1e-9):
                ends.append((float(axis[at] + meet), reached[0] + slopes[0] * meet))
        ends.append((float(axis[at + 1]), reached[1]))
    return np.array([end[0] for end in ends]), np.array([end[1] for end in ends])


def _mixed(low: float, high: float, part: float) -> float:
    """The speed whose seconds are the mean of two, weighted."""
    return float(1 / ((1 - part) / low + part / high)) if low > 0 and high > 0 else 0.0
