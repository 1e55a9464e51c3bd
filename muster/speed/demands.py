"""What jobs want at best and must have at least, per GPU, on each kind of machine (Synergy §4).

A job's class is its model and its number of GPUs: the members of a class want the same. Amounts are
millionths, as in the ledger; speeds are relative to the model's reference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.books import Floats, Ints, Rows
from muster.compiling import njit
from muster.speed.input_pipeline import ModelTable
from muster.speed.points import choices, knee, speed_at

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
    limit: Ints
    """The most that one machine can give each GPU of a gang that it holds; the share to a larger gang."""
    first_choice: Ints
    """By class and kind: where its choices begin; they end where the next pair's begin."""
    choice: Ints
    """Points worth choosing, by speed, the fair one first; by choice and resource."""
    choice_speed: Floats


class DemandBook:
    """Demands by class, worked out once a class and kept: a memory of a pure function of models and machines."""

    def __init__(self, models: ModelTable, nodes: Rows) -> None:
        # Of one kind are machines of one shape on whose GPUs every model is as fast.
        _, alike = np.unique(models["on_type"][:, nodes["gpu_type"]], axis=1, return_inverse=True)
        shapes = np.column_stack([nodes["capacity"], nodes["gpus"], alike.reshape(-1)])
        _, first, kind_of_node = np.unique(shapes, axis=0, return_index=True, return_inverse=True)
        # Numbered as the machines bring them, so that the first machine is of kind 0.
        rank = np.argsort(np.argsort(first))
        self.models = models
        self.kind_of_node: Ints = rank[kind_of_node.reshape(-1)]
        self.kinds: Rows = nodes[np.sort(first)]
        self._most_gpus = int(nodes["gpus"].max()) + 1
        self._number = np.full((len(models), self._most_gpus + 1), _UNKNOWN)
        self._known: list[_Entry] = []
        self._demands = self._stack()

    def of(self, model: Ints, gpus: Ints) -> tuple[Ints, Demands]:
        """The class of each job, and the demands by class.

        Of a model, all gangs larger than any machine are of one class.
        """
        capped = np.minimum(gpus, self._most_gpus)
        numbers: Ints = self._number[model, capped]
        if (numbers == _UNKNOWN).any():
            for pair in sorted(set(zip(model.tolist(), capped.tolist(), strict=True))):
                if self._number[pair] == _UNKNOWN:
                    self._number[pair] = len(self._known) // len(self.kinds)
                    self._known += [_entry(self.models, *pair, machine) for machine in self.kinds]
            self._demands = self._stack()
            numbers = self._number[model, capped]
        return numbers, self._demands

    def _stack(self) -> Demands:
        """The demands of all classes so far, side by side."""
        classes, kinds = len(self._known) // len(self.kinds), len(self.kinds)
        amounts = [np.zeros((classes * kinds, 4), np.int64) for _ in range(4)]
        speeds = [np.zeros(classes * kinds) for _ in range(3)]
        for row, entry in enumerate(self._known):
            for table, amount in zip(amounts, entry.amounts, strict=True):
                table[row] = amount
            for column, speed in zip(speeds, entry.speeds, strict=True):
                column[row] = speed
        best, fair, published, limit = (table.reshape(classes, kinds, 4) for table in amounts)
        best_speed, fair_speed, published_speed = (column.reshape(classes, kinds) for column in speeds)
        first = np.cumsum([0, *(len(entry.choice) for entry in self._known)])
        return Demands(
            best,
            fair,
            published,
            best_speed,
            fair_speed,
            published_speed,
            limit,
            first,
            np.concatenate([np.zeros((0, 4), np.int64), *(entry.choice for entry in self._known)]),
            np.concatenate([np.zeros(0), *(entry.choice_speed for entry in self._known)]),
        )


class _Entry(NamedTuple):
    """Of one class on one kind of machine, in the order of `Demands`."""

    amounts: tuple[Ints, ...]
    speeds: tuple[float, ...]
    choice: Ints
    choice_speed: Floats


def _entry(models: ModelTable, model: int, gpus: int, machine: Rows) -> _Entry:
    model = int(models[model]["on_type"][machine["gpu_type"]])
    share = machine["share"].copy()
    best, fair, published, limit = (share.copy() for _ in range(4))
    if models[model]["n_cpus"] == 0 or machine["gpus"] == 0:
        # Nothing is known of it, so nothing is taken away from it.
        speed = speed_at(models, model, share)
        return _Entry((best, fair, published, limit), (speed, speed, speed), share[None], np.array([speed]))
    if gpus <= machine["gpus"]:
        limit = machine["capacity"] // gpus
    fair_speed = knee(models, model, share, share, fair)
    best_speed = knee(models, model, limit, share, best)
    published_speed = published_demand(models, model, gpus, machine, published)
    choice, choice_speed = choices(models, model, limit, share, fair)
    speeds = (best_speed, fair_speed, published_speed)
    return _Entry((best, fair, published, limit), speeds, choice, choice_speed)


@njit(cache=True)
def published_demand(models: ModelTable, model: int, gpus: int, machine: Rows, demand: Ints) -> float:
    """Write the authors' best-case demand a GPU; the speed that their program gives a job that holds it.

    Each resource of g times one GPU's knee is cut to one machine. Up to a machine's GPUs the gain shrinks with
    the CPUs cut; of larger gangs the cut resources become proportional and nothing is gained.
    """
    share = machine["share"]
    fair_speed: float = speed_at(models, model, share)
    ideal = share.copy()
    best_speed: float = knee(models, model, machine["capacity"], share, ideal)
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
    part: float = (demand[1] - share[1]) / (ideal[1] - share[1])
    return fair_speed + (best_speed - fair_speed) * part
