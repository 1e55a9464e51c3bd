"""What jobs want at best and must have at least, per GPU, on each kind of machine (Synergy §4).

A job's class is its model, its number of GPUs and what its owner requests: the members of a class want the same.
Amounts are millionths, as in the ledger; speeds are relative to the model's reference.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.cluster.distinct_rows import distinct_rows
from muster.cluster.ledger_arrays import MICRO, Bools, Floats, Ints, NodeArray
from muster.cluster.resources import BUILT_IN_COUNT, RESOURCE_COUNT
from muster.speed.input_pipeline import ModelTable
from muster.speed.points import choices, knee, published_demand, speed_at
from muster.speed.request_classes import RequestClasses
from muster.speed.sized_models import SizedModels

_UNKNOWN = -1


class ProfiledDemands(NamedTuple):
    """Amounts a GPU, by class, kind of machine and resource; and the speeds there, by class and kind.

    No amount is below what the class requests. One whose model says nothing of CPU and memory needs what it requests,
    and its GPU-proportional share of what it does not request.
    """

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
    fastest: Floats
    """By class: the best speed on any kind of machine that has GPUs."""
    least_best: Ints
    """By class and resource: the least of `best` on any of these."""
    limit: Ints
    """The most that one machine can give each GPU of a gang that it holds; the share to a larger gang."""
    share: Ints
    """The GPU-proportional share."""
    requested: Ints
    """What the owner asks for, by class and resource."""
    first_choice: Ints
    """By class and kind: where its choices begin; they end where the next pair's begin."""
    choice: Ints
    """Points worth choosing, by speed, the fair one first; by choice and resource."""
    choice_speed: Floats


class KnownClasses(NamedTuple):
    """What was asked of `ResourceProfiles` so far, in order: classes are numbered by it, and ties go by the numbers."""

    sizes: list[tuple[int, int, int]]
    classes: list[tuple[int, ...]]
    """Model, GPUs, and the request by resource."""
    below_share: list[tuple[int, ...]]
    """Likewise, where a job may have less than its share."""
    sizes_below_share: list[tuple[int, int, int]]


class ResourceProfiles:
    """Demands by class, worked out once a class and kept: a memory of a pure function of models and machines."""

    def __init__(self, models: ModelTable, nodes: NodeArray, *, below_share: bool = False) -> None:
        self._below_share, self._nodes = below_share, nodes
        self._sized = SizedModels(models)
        # Of one kind are machines of one shape on whose GPUs every model is as fast.
        _, alike = np.unique(models["on_type"][:, nodes["gpu_type"]], axis=1, return_inverse=True)
        shapes = np.column_stack([nodes["capacity"], nodes["gpus"], alike.reshape(-1)])
        _, first, kind_of_node = np.unique(shapes, axis=0, return_index=True, return_inverse=True)
        # Numbered as the machines bring them, so that the first machine is of kind 0.
        rank = np.argsort(np.argsort(first))
        self.models = models
        self.kind_of_node: Ints = rank[kind_of_node.reshape(-1)]
        self.kinds: NodeArray = nodes[np.sort(first)]
        self._most_gpus = int(nodes["gpus"].max()) + 1
        self._number = np.full((len(models), self._most_gpus + 1), _UNKNOWN)
        self._of_requests = RequestClasses(RESOURCE_COUNT)
        self._known: list[tuple[int, ...]] = []
        self._classes = 0
        kinds = len(self.kinds)
        self._amounts = [_Growing((kinds, RESOURCE_COUNT), np.int64) for _ in range(5)]
        self._speeds = [_Growing((kinds,), np.float64) for _ in range(3)]
        self._fastest, self._least_best = _Growing((), np.float64), _Growing((RESOURCE_COUNT,), np.int64)
        self._requested = _Growing((RESOURCE_COUNT,), np.int64)
        self._first_choice = _Growing((), np.int64)
        self._first_choice.add(np.zeros((), np.int64))
        self._choice, self._choice_speed = _Growing((RESOURCE_COUNT,), np.int64), _Growing((), np.float64)
        self._demands = self._of_all()

    @cached_property
    def below_share(self) -> ResourceProfiles:
        """The same, where a job may have less than its share: its fair demand is the least that was measured."""
        return ResourceProfiles(self.models, self._nodes, below_share=True)

    def says_nothing_of(self, model: Ints) -> Bools:
        """Of which models nothing is known of what they need beside their GPUs."""
        unknown: Bools = self.models["n_cpus"][model] == 0
        return unknown

    def sized(self, model: Ints, asked: Ints, workers: Ints) -> Ints:
        """The records of gangs of `model` that asked for `asked` GPUs and have `workers`; `models` may grow by them."""
        records = self._sized.of(model, asked, workers)
        more = len(self._sized.table) - len(self.models)
        if more:
            self.models = self._sized.table
            self._number = np.pad(self._number, ((0, more), (0, 0)), constant_values=_UNKNOWN)
        return records

    def of(self, model: Ints, gpus: Ints, requested: Ints) -> tuple[Ints, ProfiledDemands]:
        """The class of each job, and the demands by class; `requested` is by job and resource, for each GPU.

        Of a model, all gangs larger than any machine that request the same are of one class.
        """
        capped = np.minimum(gpus, self._most_gpus)
        before = self._classes
        numbers: Ints = self._number[model, capped]
        some_ask = bool(requested.any())
        if not some_ask and numbers.min(initial=0) > _UNKNOWN:
            return numbers, self._demands
        asks: Bools = np.any(requested, axis=1)
        unknown = (numbers == _UNKNOWN) & ~asks
        if unknown.any():
            for pair in sorted(set(zip(model[unknown].tolist(), capped[unknown].tolist(), strict=True))):
                self._number[pair] = self._add(*pair, np.zeros(RESOURCE_COUNT, np.int64))
            numbers = self._number[model, capped]
        if some_ask:
            self._of_requests.find(model, capped, requested, asks, numbers)
            if (new := numbers == _UNKNOWN).any():
                for row in distinct_rows(np.column_stack([model[new], capped[new], requested[new]]))[0]:
                    self._of_requests.add(row, self._add(int(row[0]), int(row[1]), row[2:]))
                self._of_requests.find(model, capped, requested, new, numbers)
        if self._classes > before:
            self._demands = self._of_all()
        return numbers, self._demands

    @property
    def known(self) -> KnownClasses:
        """What was asked so far."""
        below = self.__dict__.get("below_share")
        if below is None:
            return KnownClasses(self._sized.sizes, list(self._known), [], [])
        return KnownClasses(
            self._sized.sizes, list(self._known), list(below._known), list(below._sized.sizes)
        )

    def learn(self, known: KnownClasses) -> None:
        """Number the classes as where they were asked for before."""
        if known.sizes:
            self.sized(*np.array(known.sizes, np.int64).T)
        if known.sizes_below_share:
            self.below_share.sized(*np.array(known.sizes_below_share, np.int64).T)
        for row in known.classes:
            self.of(*_asked_of(row))
        for row in known.below_share:
            self.below_share.of(*_asked_of(row))

    def _add(self, model: int, gpus: int, requested: Ints) -> int:
        """A new class; its number."""
        for kind, machine in enumerate(self.kinds):
            entry = _entry(self.models, model, gpus, machine, requested, self._below_share)
            for table, amount in zip(self._amounts, entry.amounts, strict=True):
                table.row(self._classes)[kind] = amount
            for column, speed in zip(self._speeds, entry.speeds, strict=True):
                column.row(self._classes)[kind] = speed
            for point, speed in zip(entry.choice, entry.choice_speed, strict=True):
                self._choice.add(point)
                self._choice_speed.add(speed)
            self._first_choice.add(np.array(self._choice.count))
        with_gpus = self.kinds["gpus"] > 0
        self._fastest.add(self._speeds[0].row(self._classes)[with_gpus].max(initial=0.0))
        self._least_best.add(self._amounts[0].row(self._classes)[with_gpus].min(axis=0))
        self._requested.add(requested)
        self._known.append((model, gpus, *requested.tolist()))
        self._classes += 1
        return self._classes - 1

    def _of_all(self) -> ProfiledDemands:
        """The demands of all classes so far."""
        best, fair, published, limit, share = (table.rows for table in self._amounts)
        best_speed, fair_speed, published_speed = (column.rows for column in self._speeds)
        return ProfiledDemands(
            best,
            fair,
            published,
            best_speed,
            fair_speed,
            published_speed,
            self._fastest.rows,
            self._least_best.rows,
            limit,
            share,
            self._requested.rows,
            self._first_choice.rows,
            self._choice.rows,
            self._choice_speed.rows,
        )


def kinds_allowed(node_allowed: Bools, kind_of_node: Ints, kinds: int) -> Bools:
    """By constraint and kind of node, whether some node of the kind is allowed."""
    allowed = np.zeros((len(node_allowed), kinds), np.bool_)
    for kind in range(kinds):
        allowed[:, kind] = node_allowed[:, kind_of_node == kind].any(axis=1)
    return allowed


def _asked_of(row: tuple[int, ...]) -> tuple[Ints, Ints, Ints]:
    """One class as `ResourceProfiles.of` takes it."""
    model, gpus, *requested = row
    return np.array([model]), np.array([gpus]), np.array([requested], np.int64)


class _Growing:
    """An array to which rows are added, at a cost that does not depend on how many there are."""

    def __init__(self, shape: tuple[int, ...], dtype: type) -> None:
        self._array: NDArray[Any] = np.zeros((64, *shape), dtype)
        self.count = 0

    @property
    def rows(self) -> NDArray[Any]:
        """Those added so far."""
        return self._array[: self.count]

    def row(self, number: int) -> NDArray[Any]:
        """A row to write, which is added if there are only those before it."""
        if number == self.count:
            self.count += 1
            if self.count > len(self._array):
                self._array = np.concatenate([self._array, np.zeros_like(self._array)])
        row: NDArray[Any] = self._array[number]
        return row

    def add(self, value: Any) -> None:
        """One row more."""
        self.row(self.count)
        self._array[self.count - 1] = value


class _Entry(NamedTuple):
    """Of one class on one kind of machine, in the order of `ProfiledDemands`."""

    amounts: tuple[Ints, ...]
    speeds: tuple[float, ...]
    choice: Ints
    choice_speed: Floats


def _entry(
    models: ModelTable, model: int, gpus: int, machine: NodeArray, requested: Ints, below_share: bool
) -> _Entry:
    model = int(models[model]["on_type"][machine["gpu_type"]])
    share = machine["share"].copy()
    at_least = np.maximum(share, requested)
    if models[model]["n_cpus"] == 0 or machine["gpus"] == 0:
        # Nothing is known of it but what its owner says that it needs; of the rest nothing is taken away from it.
        speed, needs = speed_at(models, model, share), np.where(requested > 0, requested, share)
        amounts = (needs, needs, needs, at_least, at_least)
        return _Entry(amounts, (speed, speed, speed), needs[None], np.array([speed]))
    best, fair, published, limit = (share.copy() for _ in range(4))
    if gpus <= machine["gpus"]:
        limit = machine["capacity"] // gpus
        limit[BUILT_IN_COUNT:] = 0
    limit = np.maximum(limit, requested)
    fair_speed = knee(models, model, share, share, fair)
    best_speed = knee(models, model, limit, share, best)
    if below_share:
        least = [round(float(models[model][name][0]) * MICRO) for name in ("cpus", "memory")]
        fair[1:BUILT_IN_COUNT] = [*np.minimum(fair[1:3], least), 0]
        fair_speed = speed_at(models, model, fair)
    published_speed = published_demand(models, model, gpus, machine, published)
    if requested.any():
        best, fair, published = (np.maximum(demand, requested) for demand in (best, fair, published))
        fair_speed, best_speed = (speed_at(models, model, demand) for demand in (fair, best))
    choice, choice_speed = choices(models, model, limit, share, fair, requested)
    return _Entry(
        (best, fair, published, limit, at_least),
        (best_speed, fair_speed, published_speed),
        choice,
        choice_speed,
    )
