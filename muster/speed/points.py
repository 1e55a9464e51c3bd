"""Points of a model's speed surface (Synergy's W) in the ledger's units, and which of them are worth choosing.

Amounts are by GPU, in millionths: GPU (not used), CPU, memory, storage. Speeds are relative to the reference.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Books, Floats, Ints
from muster.cluster.resources import BUILT_IN_COUNT, RESOURCE_COUNT
from muster.compiling import njit
from muster.speed.input_pipeline import ModelTable, relative_speed, storage_needed_gb_per_s

ROUNDING = 1e-9
"""Speeds this close, relatively, are the same."""
UNLIMITED = 1 << 50
"""More storage bandwidth than anybody can use."""


@njit(cache=True)
def speed_at(models: ModelTable, model: int, amounts: Ints) -> float:
    """Speed with these amounts a GPU, relative to the model's reference (Synergy's W)."""
    speed: float = relative_speed(models, model, amounts[1] / 1e6, amounts[2] / 1e6, amounts[3] / 1e6)
    return speed


@njit(cache=True)
def knee(models: ModelTable, model: int, limit: Ints, share: Ints, demand: Ints) -> float:
    """The cheapest demand within the limit that is as fast as the limit; its speed.

    Measured points and the limit's own lines are tried. Cost: the sum of the parts of one GPU's share; of equal
    costs the one with fewer CPUs. Storage is what these CPUs and memory can use.
    """
    entry = models[model]
    wanted = speed_at(models, model, limit) * (1 - ROUNDING)
    cheapest = np.inf
    candidate = limit.copy()
    for resource in range(1, RESOURCE_COUNT):
        demand[resource] = limit[resource]
    for row in range(entry["n_cpus"]):
        candidate[1] = min(micro(entry["cpus"][row]), limit[1])
        for column in range(entry["n_memory"]):
            candidate[2] = min(micro(entry["memory"][column]), limit[2])
            candidate[3] = storage_wanted(models, model, candidate[1], candidate[2], limit[3])
            if speed_at(models, model, candidate) >= wanted:
                cost = 0.0
                for resource in range(1, BUILT_IN_COUNT):
                    cost += candidate[resource] / max(share[resource], 1)
                if cost < cheapest - ROUNDING:
                    cheapest = cost
                    for resource in range(1, RESOURCE_COUNT):
                        demand[resource] = candidate[resource]
    return speed_at(models, model, demand)


@njit(cache=True)
def choices(
    models: ModelTable, model: int, limit: Ints, share: Ints, fair: Ints, requested: Ints
) -> tuple[Ints, Floats]:
    """The points within the limit that are as fast as the fair one and not dominated, by speed; the fair one first.

    Measured points, the limit's own lines and the share's own lines, with the storage that they can use; none has
    less than was requested.
    """
    cpus, memory = lines(models, model, limit, share, requested)
    at_least = speed_at(models, model, fair) * (1 + ROUNDING)
    points = np.zeros((1 + len(cpus) * len(memory), RESOURCE_COUNT), np.int64)
    speed = np.zeros(len(points))
    points[:, BUILT_IN_COUNT:] = requested[BUILT_IN_COUNT:]
    points[0] = fair
    speed[0] = speed_at(models, model, fair)
    count = 1
    for c in cpus:
        for m in memory:
            points[count, 1], points[count, 2] = c, m
            points[count, 3] = storage_wanted(models, model, c, m, limit[3])
            speed[count] = speed_at(models, model, points[count])
            if speed[count] > at_least:
                count += 1
    kept = np.ones(count, np.bool_)
    for one in range(1, count):
        for other in range(count):
            if kept[other] and other != one and _dominates(points, speed, other, one):
                kept[one] = False
                break
    order = np.argsort(speed[:count], kind="mergesort")
    order = order[kept[order]]
    return points[order], speed[order]


@njit(cache=True)
def _dominates(points: Ints, speed: Floats, one: int, other: int) -> bool:
    """Whether one point is as fast with no more of anything; of twins the first."""
    if speed[one] < speed[other]:
        return False
    same = speed[one] == speed[other]
    for resource in range(1, RESOURCE_COUNT):
        if points[one, resource] > points[other, resource]:
            return False
        same = same and points[one, resource] == points[other, resource]
    return not same or one < other


@njit(cache=True)
def corners(
    models: ModelTable, model: int, limit: Ints, share: Ints, fair_speed: float, requested: Ints
) -> tuple[Ints, Floats]:
    """Points whose mixtures reach everything that is as fast as the fair share: what a valid bound must hold.

    All corners of every cell of the grid that has something as fast in it, from the request on; storage is taken as
    unlimited, since only so the surface stays under the chords between points.
    """
    cpus, memory = lines(models, model, limit, share, requested)
    speed = np.zeros((len(cpus), len(memory)))
    point = np.full(RESOURCE_COUNT, UNLIMITED)
    for row in range(len(cpus)):
        for column in range(len(memory)):
            point[1], point[2] = cpus[row], memory[column]
            speed[row, column] = speed_at(models, model, point)
    enough = fair_speed * (1 - ROUNDING)
    above = fair_speed * (1 + ROUNDING)
    kept = speed >= enough
    # Each cell by its last corner; in a grid of one line the cells are the edges between its points.
    for row in range(min(1, len(cpus) - 1), len(cpus)):
        for column in range(min(1, len(memory) - 1), len(memory)):
            if speed[row, column] > above:
                kept[max(row - 1, 0) : row + 1, max(column - 1, 0) : column + 1] = True
    count = kept.sum()
    points = np.zeros((count, RESOURCE_COUNT), np.int64)
    points[:, BUILT_IN_COUNT:] = requested[BUILT_IN_COUNT:]
    speeds = np.zeros(count)
    at = 0
    for row in range(len(cpus)):
        for column in range(len(memory)):
            if kept[row, column]:
                points[at, 1], points[at, 2] = cpus[row], memory[column]
                speeds[at] = speed[row, column]
                at += 1
    return points, speeds


@njit(cache=True)
def lines(models: ModelTable, model: int, limit: Ints, share: Ints, requested: Ints) -> tuple[Ints, Ints]:
    """CPU and memory amounts at which the surface may bend or end, ascending: measured, the share's, the limit's.

    Amounts below the request are replaced by it.
    """
    entry = models[model]
    cpus = np.zeros(entry["n_cpus"] + 2, np.int64)
    memory = np.zeros(entry["n_memory"] + 2, np.int64)
    cpus[0], cpus[1] = min(share[1], limit[1]), limit[1]
    memory[0], memory[1] = min(share[2], limit[2]), limit[2]
    for row in range(entry["n_cpus"]):
        cpus[row + 2] = min(micro(entry["cpus"][row]), limit[1])
    for column in range(entry["n_memory"]):
        memory[column + 2] = min(micro(entry["memory"][column]), limit[2])
    return np.unique(np.maximum(cpus, requested[1])), np.unique(np.maximum(memory, requested[2]))


@njit(cache=True)
def storage_wanted(models: ModelTable, model: int, cpus: int, memory: int, limit: int) -> int:
    """The storage bandwidth that these CPUs and memory can use, at most the limit; all in millionths."""
    needed = storage_needed_gb_per_s(models, model, cpus / 1e6, memory / 1e6)
    return limit if needed * 1e6 >= limit else micro(needed)


@njit(cache=True)
def held_speed(books: Books, row: int, models: ModelTable, model: int) -> float:
    """Speed of a job on what it holds, relative to its model's reference; the slowest machine counts."""
    slowest = np.inf
    per_gpu = np.zeros(RESOURCE_COUNT, np.int64)
    while row >= 0:
        held = books.rows[row]
        if held["amount"][0] > 0:
            for resource in range(1, RESOURCE_COUNT):
                per_gpu[resource] = held["amount"][resource] * 1_000_000 // held["amount"][0]
            here = models[model]["on_type"][books.nodes[held["node"]]["gpu_type"]]
            slowest = min(slowest, speed_at(models, here, per_gpu))
        row = held["next"]
    return slowest if slowest < np.inf else 0.0


@njit(cache=True)
def micro(amount: float) -> int:
    """Millionths, rounded up, but not because of a rounding error."""
    return int(np.ceil(amount * 1e6 - 1e-3))
