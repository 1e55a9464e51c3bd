"""The best decision on a few machines as an integer program, written apart from the code that it judges.

It works on models and nodes as their files say them, knows no class of jobs and no pooled machine, and is solved by
SciPy. A gang may be on any machines; its part on each has amounts of its own; the slowest part counts for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from muster.cluster import Cluster, Node
from muster.workload.models import Model
from tests.building import cluster_of

Point = tuple[float, float, float]
"""CPUs and memory a GPU, and the speed with them."""


@dataclass
class _Program:
    """Columns and rows so far."""

    profit: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    rows: list[tuple[dict[int, float], float, float]] = field(default_factory=list)

    def column(self, profit: float = 0.0, whole: bool = False, most: float = 1.0) -> int:
        """A new variable from 0 to `most`."""
        self.profit.append(profit)
        self.whole.append(whole)
        self.most.append(most)
        return len(self.profit) - 1

    def row(self, entries: dict[int, float], least: float, most: float) -> None:
        """A new constraint."""
        self.rows.append((entries, least, most))

    def solve(self) -> float:
        """The optimum; NaN where nothing is feasible."""
        cells = [
            (at, column, value) for at, (row, _, _) in enumerate(self.rows) for column, value in row.items()
        ]
        at, columns, values = (np.array(part) for part in zip(*cells, strict=True))
        matrix = csr_array((values, (at, columns)), shape=(len(self.rows), len(self.profit)))
        least, most = (np.array([row[side] for row in self.rows]) for side in (1, 2))
        solved = milp(
            -np.array(self.profit),
            integrality=np.array(self.whole, int),
            bounds=Bounds(0, np.array(self.most)),
            constraints=LinearConstraint(matrix, least, most),
            options={"mip_rel_gap": 5e-4, "time_limit": 60.0},
        )
        if solved.status == 2:
            return float("nan")
        assert solved.status == 0, solved.message
        return -float(solved.fun)


def best_total(
    cluster: Cluster,
    jobs: Sequence[tuple[Model, int]],
    weights: Sequence[float] | None = None,
    must_run: Sequence[bool] | None = None,
    for_running: float = 0.0,
) -> float:
    """The most that the speeds of all jobs, times their weights, can be; the weights are their GPUs by default.

    Jobs may wait, except that those that must run are nowhere slower than with their share of the GPUs' machine, and
    all others wait. CPUs may be any amount; memory is a measured amount, the share, all that a machine has for the
    part, or none, which is as fast as the least measured; jobs that must run have the least measured or their share.
    That a job runs counts `for_running` of its weight beside its speed.
    """
    program = _Program()
    nodes = cluster.nodes
    used: list[list[dict[int, float]]] = [[{}, {}, {}] for _ in nodes]
    for number, (model, gpus) in enumerate(jobs):
        if must_run is not None and not must_run[number]:
            continue
        weight = gpus if weights is None else weights[number]
        _add_job(program, nodes, used, (model, gpus), weight, must_run is not None, for_running)
    for node, amounts in zip(nodes, used, strict=True):
        for entries, most in zip(amounts, (node.gpus, node.cpus, node.memory_gb), strict=True):
            if entries:
                program.row(entries, -np.inf, most)
    return program.solve() if program.profit else 0.0


def _add_job(
    program: _Program,
    nodes: Sequence[Node],
    used: list[list[dict[int, float]]],
    job: tuple[Model, int],
    weight: float,
    must_run: bool,
    for_running: float,
) -> None:
    """The job's columns: which pattern of machines, and on each of them which amounts beside its GPUs."""
    model, gpus = job
    fastest = max(map(max, model.speed))
    patterns = [
        pattern
        for pattern in product(*(range(min(gpus, node.gpus) + 1) for node in nodes))
        if sum(pattern) == gpus
    ]
    takes = {pattern: program.column(weight * for_running, whole=True) for pattern in patterns}
    program.row(dict.fromkeys(takes.values(), 1.0), 1.0 if must_run else 0.0, 1.0)
    apart = [take for pattern, take in takes.items() if max(pattern) < gpus]
    speed = program.column(weight, most=fastest)
    program.row({speed: 1.0} | dict.fromkeys(apart, -fastest), -np.inf, 0.0)
    fair = {
        takes[pattern]: -min(
            fair_speed(model, node) for node, part in zip(nodes, pattern, strict=True) if part
        )
        for pattern in patterns
    }
    total, mean = {speed: 1.0}, {speed: 1.0}
    for number, node in enumerate(nodes):
        slowest = {speed: 1.0} | {take: fastest for take in apart if _pattern_of(takes, take)[number]}
        for part in range(1, min(gpus, node.gpus) + 1):
            these = [takes[pattern] for pattern in patterns if pattern[number] == part]
            if not these:
                continue
            further = [(node.cpus / each, node.memory_gb / each) for each in (node.gpus, part)]
            least = min(model.memory_gb_per_gpu[0], further[0][1]) if must_run else 0.0
            for column, point in _amounts(program, model, these, further, least).items():
                for amount, value in enumerate((1.0, *point[:2])):
                    used[number][amount][column] = part * value
                if part == gpus:
                    program.profit[column] = weight * point[2]
                    total[column] = point[2]
                else:
                    slowest[column] = -point[2]
                    mean[column] = -point[2] * part / gpus
        program.row(slowest, -np.inf, fastest)
    program.row(mean, -np.inf, 0.0)
    if must_run:
        program.row(total | fair, -1e-9, np.inf)


def _pattern_of(takes: dict[tuple[int, ...], int], take: int) -> tuple[int, ...]:
    """The pattern of a column."""
    return next(pattern for pattern, column in takes.items() if column == take)


def _amounts(
    program: _Program,
    model: Model,
    these: list[int],
    further: Sequence[tuple[float, float]],
    least_memory: float,
) -> dict[int, Point]:
    """Columns of points whose mixture are the amounts for each GPU, if one of these patterns is taken.

    Two CPU points side by side at one amount of memory may be mixed: between them speed is linear. Where it bends
    down from stretch to stretch, the stretches are one piece: a mixture of points far apart is no faster.
    """
    most = further[-1]
    points: dict[int, Point] = {}
    pieces = []
    measured = [least_memory, *model.memory_gb_per_gpu[1:]]
    share = [amount for amount in further if amount[1] > model.memory_gb_per_gpu[0]]
    for memory in sorted({*measured, *(amount[1] for amount in share)}):
        if memory > min(most[1], model.memory_gb_per_gpu[-1]) + 1e-9:
            continue
        between = {
            amount[0] for amount in further if memory not in measured and amount[0] < model.cpus_per_gpu[-1]
        }
        axis = np.array(sorted({0.0, *model.cpus_per_gpu, *between}))
        line = np.array([speed_of(model, cpus, memory) for cpus in axis])
        slopes = np.diff(line) / np.diff(axis)
        starts = [0, *(1 + np.flatnonzero(np.diff(slopes) > 1e-9)).tolist(), len(slopes)]
        for first, last in pairwise(starts):
            if axis[first] > most[0] + 1e-9:
                continue
            pieces.append(program.column(whole=True))
            ends = {
                program.column(): (float(axis[at]), memory, float(line[at])) for at in range(first, last + 1)
            }
            points |= ends
            program.row(dict.fromkeys(ends, 1.0) | {pieces[-1]: -1.0}, 0.0, 0.0)
    program.row(dict.fromkeys(pieces, 1.0) | dict.fromkeys(these, -1.0), 0.0, 0.0)
    return points


def speed_of(model: Model, cpus: float, memory: float) -> float:
    """The speed with these amounts a GPU: linear in CPUs at measured memory, between two of those the mixed seconds."""
    if cpus <= 0:
        return 0.0
    lines = np.array(model.speed).T
    at_memory = [float(np.interp(cpus, [0.0, *model.cpus_per_gpu], [0.0, *line])) for line in lines]
    return float(1 / np.interp(memory, model.memory_gb_per_gpu, 1 / np.array(at_memory)))


def fair_speed(model: Model, node: Node) -> float:
    """The speed with the share of one GPU of a machine."""
    return speed_of(model, node.cpus / node.gpus, node.memory_gb / node.gpus)


def random_case(seed: int) -> tuple[Cluster, list[tuple[Model, int]]]:
    """One to three machines with one to four GPUs each, and two to eight jobs, each with a table of its own."""
    rng = np.random.default_rng(seed)
    alike = rng.random() < 0.5
    shapes = [
        (int(rng.choice([1, 2, 4])), float(rng.choice([1, 2, 3, 4])), float(rng.choice([8, 16, 32])))
        for _ in range(int(rng.integers(1, 4)))
    ]
    if alike:
        shapes = [shapes[0]] * len(shapes)
    nodes = tuple(
        replace(cluster_of(gpus, cpus_per_gpu=cpus, memory_gb_per_gpu=memory).nodes[0], name=f"node{at}")
        for at, (gpus, cpus, memory) in enumerate(shapes)
    )
    total = sum(node.gpus for node in nodes)
    jobs = []
    for number in range(int(rng.integers(2, 9))):
        gpus = int(rng.choice([1, 1, 1, 2, 2, 3, 4]))
        jobs.append((_random_model(rng, f"model{number}"), min(gpus, total)))
    return replace(cluster_of(1), nodes=nodes), jobs


def _random_model(rng: np.random.Generator, name: str) -> Model:
    """A table of two to four CPU points by one to three of memory, with flat stretches."""
    cpus = tuple(np.cumsum(rng.choice([0.5, 1.0, 2.0], size=int(rng.integers(2, 5)))).tolist())
    memory = tuple(np.cumsum(rng.choice([4.0, 8.0, 16.0], size=int(rng.integers(1, 4)))).tolist())
    rises = rng.exponential(1.0, (len(cpus), len(memory))) * (rng.random((len(cpus), len(memory))) < 0.7)
    rises[0, 0] += rng.choice([0.2, 1.0, 4.0])
    speed = rises.cumsum(axis=0).cumsum(axis=1)
    speed /= speed[-1, -1]
    rows = tuple(tuple(map(float, row)) for row in speed)
    return Model(
        name, "image", 32, 1.0, cpus[-1], memory[-1], cpus, memory, rows, source="a test", licence="none"
    )
