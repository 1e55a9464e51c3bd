"""What jobs want at best and must have at least, per GPU, on each kind of machine (Synergy §4).

A job's class is its model and its number of GPUs: the members of a class want the same. Amounts are
millionths, as in the ledger; speeds are relative to the model's reference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from muster.cluster.books import Books, Floats, Ints, Rows
from muster.speed.input_pipeline import ModelTable, relative_speed, storage_needed_gb_per_s

ROUNDING = 1e-9
"""Speeds this close, relatively, are the same."""
_UNKNOWN = -1


class Demands(NamedTuple):
    """Amounts a GPU, by class, kind of machine and resource; and the speeds there, by class and kind."""

    best: Ints
    """The knee with all that one machine can give: the least demand of the best speed."""
    fair: Ints
    """The least demand, within the GPU-proportional share, that is as fast as the share."""
    published: Ints
    """The best-case demand of the authors' program: the knee of one GPU, times the GPUs, cut to one machine."""
    best_speed: Floats
    fair_speed: Floats
    published_speed: Floats
    """The authors' law for a job that holds its whole published demand."""


class DemandBook:
    """Demands by class, worked out once a class and kept: a memory of a pure function of models and machines."""

    def __init__(self, models: ModelTable, nodes: Rows) -> None:
        shapes = np.column_stack([nodes["capacity"], nodes["gpus"]])
        _, first, kind_of_node = np.unique(shapes, axis=0, return_index=True, return_inverse=True)
        # Numbered as the machines bring them, so that the first machine is of kind 0.
        rank = np.argsort(np.argsort(first))
        self.models = models
        self.kind_of_node: Ints = rank[kind_of_node.reshape(-1)]
        self.kinds: Rows = nodes[np.sort(first)]
        self._most_gpus = int(nodes["gpus"].max()) + 1
        self._number = np.full((len(models), self._most_gpus + 1), _UNKNOWN)
        self._members: list[tuple[int, int]] = []
        self._demands = self._empty(0)

    def of(self, model: Ints, gpus: Ints) -> tuple[Ints, Demands]:
        """The class of each job, and the demands by class.

        Of a model, all gangs larger than any machine are of one class.
        """
        capped = np.minimum(gpus, self._most_gpus)
        numbers: Ints = self._number[model, capped]
        if (numbers == _UNKNOWN).any():
            for pair in sorted(set(zip(model.tolist(), capped.tolist(), strict=True))):
                if self._number[pair] == _UNKNOWN:
                    self._number[pair] = len(self._members)
                    self._members.append(pair)
            self._fill()
            numbers = self._number[model, capped]
        return numbers, self._demands

    def _empty(self, classes: int) -> Demands:
        amounts = [np.zeros((classes, len(self.kinds), 4), np.int64) for _ in range(3)]
        speeds = [np.zeros((classes, len(self.kinds))) for _ in range(3)]
        return Demands(*amounts, *speeds)

    def _fill(self) -> None:
        known, demands = len(self._demands.best), self._empty(len(self._members))
        for new, old in zip(demands, self._demands, strict=True):
            new[:known] = old
        for number in range(known, len(self._members)):
            model, gpus = self._members[number]
            for kind in range(len(self.kinds)):
                if self.kinds[kind]["gpus"]:
                    _fill_class(demands, number, kind, self.models, model, gpus, self.kinds[kind])
        self._demands = demands


@njit(cache=True)
def _fill_class(
    demands: Demands, number: int, kind: int, models: ModelTable, model: int, gpus: int, machine: Rows
) -> None:
    share = machine["share"]
    limit = share.copy()
    fair_speed = speed_at(models, model, share)
    if models[model]["n_cpus"] == 0:
        # Nothing is known of it, so nothing is taken away from it.
        for table in (demands.best, demands.fair, demands.published):
            table[number, kind] = share
    else:
        knee(models, model, limit, share, demands.fair[number, kind])
        if gpus <= machine["gpus"]:
            limit = machine["capacity"] // gpus
        knee(models, model, limit, share, demands.best[number, kind])
    demands.fair_speed[number, kind] = fair_speed
    demands.best_speed[number, kind] = speed_at(models, model, demands.best[number, kind])
    demands.published_speed[number, kind] = fair_speed
    if models[model]["n_cpus"] > 0:
        demands.published_speed[number, kind] = published_demand(
            models, model, gpus, machine, demands.published[number, kind]
        )
    for table in (demands.best, demands.fair, demands.published):
        table[number, kind, 0] = 1_000_000


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
    for resource in range(1, 4):
        demand[resource] = limit[resource]
    for row in range(entry["n_cpus"]):
        candidate[1] = min(_micro(entry["cpus"][row]), limit[1])
        for column in range(entry["n_memory"]):
            candidate[2] = min(_micro(entry["memory"][column]), limit[2])
            candidate[3] = storage_wanted(models, model, candidate[1], candidate[2], limit[3])
            if speed_at(models, model, candidate) >= wanted:
                cost = 0.0
                for resource in range(1, 4):
                    cost += candidate[resource] / max(share[resource], 1)
                if cost < cheapest - ROUNDING:
                    cheapest = cost
                    for resource in range(1, 4):
                        demand[resource] = candidate[resource]
    return speed_at(models, model, demand)


@njit(cache=True)
def storage_wanted(models: ModelTable, model: int, cpus: int, memory: int, limit: int) -> int:
    """The storage bandwidth that these CPUs and memory can use, at most the limit; all in millionths."""
    needed = storage_needed_gb_per_s(models, model, cpus / 1e6, memory / 1e6)
    return limit if needed * 1e6 >= limit else _micro(needed)


@njit(cache=True)
def published_demand(models: ModelTable, model: int, gpus: int, machine: Rows, demand: Ints) -> float:
    """Write the authors' best-case demand a GPU; the speed that their program gives a job that holds it.

    Each resource of g times one GPU's knee is cut to one machine. Up to a machine's GPUs the gain shrinks with
    the CPUs cut; of larger gangs the cut resources become proportional and nothing is gained.
    """
    share = machine["share"]
    fair_speed = speed_at(models, model, share)
    ideal = share.copy()
    best_speed = knee(models, model, machine["capacity"], share, ideal)
    spans = gpus > machine["gpus"]
    cut = False
    for resource in range(1, 4):
        demand[resource] = ideal[resource]
        if ideal[resource] * gpus > machine["capacity"][resource]:
            cut = True
            demand[resource] = share[resource] if spans else machine["capacity"][resource] // gpus
    if not cut:
        return best_speed
    if spans or ideal[1] <= share[1]:
        return fair_speed
    part = (demand[1] - share[1]) / (ideal[1] - share[1])
    return fair_speed + (best_speed - fair_speed) * part


@njit(cache=True)
def _micro(amount: float) -> int:
    """Millionths, rounded up, but not because of a rounding error."""
    return int(np.ceil(amount * 1e6 - 1e-3))


@njit(cache=True)
def held_speed(books: Books, row: int, models: ModelTable, model: int) -> float:
    """Speed of a job on what it holds, relative to the reference on the same GPUs; the slowest machine counts."""
    slowest = np.inf
    per_gpu = np.zeros(4, np.int64)
    while row >= 0:
        held = books.rows[row]
        if held["amount"][0] > 0:
            for resource in range(1, 4):
                per_gpu[resource] = held["amount"][resource] * 1_000_000 // held["amount"][0]
            slowest = min(slowest, speed_at(models, model, per_gpu))
        row = held["next"]
    return slowest if slowest < np.inf else 0.0
