"""The forms that a gang's place can have, and how fast each is: what a scheduler weighs places by.

A form says on how many machines of how many racks a gang runs and whether evenly. All places of a form are
alike to a job that is alone, so its speed is worked out once, on a place of that form in the empty cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import log
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from muster.cluster import Cluster
from muster.speed.network.placement import Placements, place, shapes_of
from muster.speed.network.speed import NetworkSpeed

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_Form: TypeAlias = tuple[int, int, int]

IN_ISLAND, IN_MACHINE, EVENLY, IN_RACK, ANYWHERE = range(5)
"""Kinds of form: one NVLink island; one machine; the same number of GPUs on each of some machines, of as
many machines in each of some racks; one rack; wherever there are GPUs."""
MOST_FORMS = 12
"""That are kept of a gang: the fastest, and always `ANYWHERE`."""
_ALIKE = 0.01
"""Forms whose speeds differ by less than about this part count as equally fast."""


@dataclass(frozen=True)
class Forms:
    """The forms of some kinds of gang, the fastest first; equally fast ones by fewer racks, then fewer machines."""

    kinds: Ints
    """Kind, machines and racks, by gang kind and form; a kind of -1 ends the list."""
    speeds: Floats
    """Compute over compute and exposed communication, likewise."""

    @cached_property
    def share_anywhere(self) -> Floats:
        """The speed of each gang kind's slowest form, as a share of that of its fastest."""
        share: Floats = np.where(self.speeds > 0, self.speeds, np.inf).min(axis=1) / self.speeds[:, 0]
        return share


class PlacementShapes:
    """Looks the forms of gangs up, and works each kind of gang out once."""

    def __init__(self, speed: NetworkSpeed | None, cluster: Cluster, *, contention: bool = False) -> None:
        self.speed = speed
        self.contention = contention
        """Whether jobs on the same uplinks slow each other."""
        self._cluster = cluster
        self._lines: Ints = np.full((0, 0), -1)  # by model and GPUs; -1: not worked out yet
        self._stretched: dict[tuple[int, int, float], int] = {}
        self._forms = Forms(np.full((0, MOST_FORMS, 3), -1), np.zeros((0, MOST_FORMS)))

    @cached_property
    def skews(self) -> Floats | None:
        """By model the share of the gradients in the largest one; None: not stated."""
        return None if self.speed is None else self.speed.largest_shares()

    def some_sensitive(self, models: Ints, gpus: Ints) -> bool:
        """Whether the network can hurt some of these gangs: alone, or beside others on the same links."""
        if self.speed is None:
            return False
        return bool((self.speed.compute_seconds[models[gpus > 1]] > 0).any())

    def of(self, models: Ints, gpus: Ints, stretched: Floats | None = None) -> tuple[Ints, Forms]:
        """Which line of the forms is each gang's, and the forms.

        `stretched`: compute of the pass that communication hides behind, times that of the model's own batch; the
        speeds are then those of such a pass (`speed.worker_options`).
        """
        if stretched is not None:
            gangs = list(zip(models.tolist(), gpus.tolist(), stretched.tolist(), strict=True))
            unknown = [gang for gang in dict.fromkeys(gangs) if gang not in self._stretched]
            self._stretched |= dict(zip(unknown, self._add(unknown), strict=True))
            return np.array([self._stretched[gang] for gang in gangs], np.int64), self._forms
        if not len(models):
            return np.zeros(0, np.int64), self._forms
        self._make_room(int(models.max()) + 1, int(gpus.max()) + 1)
        line: Ints = self._lines[models, gpus]
        if line.min() < 0:
            new = line < 0
            pairs = list(dict.fromkeys(zip(models[new].tolist(), gpus[new].tolist(), strict=True)))
            for pair, number in zip(pairs, self._add([(*pair, 1.0) for pair in pairs]), strict=True):
                self._lines[pair] = number
            line = self._lines[models, gpus]
        return line, self._forms

    def _add(self, gangs: Sequence[tuple[int, int, float]]) -> range:
        """Work out the forms of more gangs; their lines."""
        before = len(self._forms.kinds)
        if gangs:
            worked_out = [self._worked_out(*gang) for gang in gangs]
            self._forms = Forms(
                np.concatenate([self._forms.kinds, np.array([kinds for kinds, _ in worked_out])]),
                np.concatenate([self._forms.speeds, np.array([speeds for _, speeds in worked_out])]),
            )
        return range(before, len(self._forms.kinds))

    def _make_room(self, models: int, gpus: int) -> None:
        """Let there be a line for so many models and GPUs."""
        rows, columns = self._lines.shape
        if models > rows or gpus > columns:
            larger = np.full((max(models, rows), max(gpus, columns)), -1)
            larger[:rows, :columns] = self._lines
            self._lines = larger

    def _worked_out(self, model: int, gpus: int, stretched: float) -> tuple[Ints, Floats]:
        """Kinds and speeds of one gang's forms, padded."""
        known = [
            (form, self._speed_on(model, place, stretched))
            for form, place in chain(self._on_one_machine(gpus), self._on_several(gpus))
        ]
        slowest = min((speed for _, speed in known if speed is not None), default=1.0)
        ranked = sorted(
            ((form, slowest if speed is None else speed) for form, speed in known),
            key=lambda entry: (round(-log(entry[1]) / _ALIKE), entry[0][2], entry[0][1], entry[0][0]),
        )
        last = next(at for at, (form, _) in enumerate(ranked) if form[0] == ANYWHERE)
        kept = [*ranked[: min(last, MOST_FORMS - 1)], ranked[last]]
        kinds, speeds = np.full((MOST_FORMS, 3), -1), np.zeros(MOST_FORMS)
        for at, (form, speed) in enumerate(kept):
            kinds[at], speeds[at] = form, speed
        return kinds, speeds

    def _speed_on(self, model: int, placed: Placements | None, stretched: float) -> float | None:
        """None where the empty cluster has no such place."""
        if placed is None or self.speed is None:
            return None if placed is None else 1.0
        shapes = shapes_of(placed, self.speed.tree)
        return float(self.speed.efficiency(np.array([model]), shapes, np.array([stretched]))[0])

    def _on_one_machine(self, gpus: int) -> Iterator[tuple[_Form, Placements]]:
        """The forms on one machine that a gang can have here; one over islands is on a machine with the smallest."""
        nodes = self._cluster.nodes
        room = [number for number, node in enumerate(nodes) if node.gpus >= gpus]
        whole = [number for number in room if nodes[number].gpus_per_island >= gpus]
        if whole:
            yield (IN_ISLAND, 1, 1), Placements.on_node(whole[0], gpus)
        if room:
            islands = min(room, key=lambda number: nodes[number].gpus_per_island)
            yield (IN_MACHINE, 1, 1), Placements.on_node(islands, gpus)

    def _on_several(self, gpus: int) -> Iterator[tuple[_Form, Placements | None]]:
        """The forms over several machines, each with one such place."""
        for form, example in self._examples(gpus):
            yield form, place(example, self._cluster)

    def _examples(self, gpus: int) -> Iterator[tuple[_Form, list[list[int]]]]:
        """Every form over several machines, with the GPUs by machine of each rack of one such place."""
        nodes, racks = self._cluster.nodes, self._cluster.nodes_by_rack
        largest = max(node.gpus for node in nodes)
        for machines in range(2, gpus + 1):
            if gpus % machines == 0 and gpus // machines <= largest:
                for count in range(1, min(machines, len(racks)) + 1):
                    if machines % count == 0 and machines // count <= max(map(len, racks)):
                        share = [gpus // machines] * (machines // count)
                        yield (EVENLY, machines, count), [share] * count
        if gpus > 1:
            yield (IN_RACK, 2, 1), [_unevenly(gpus, largest)]
        away = [[1]] if len(racks) > 1 and gpus > 1 else []
        near = _unevenly(gpus - len(away), largest)
        width = max(map(len, racks))
        spread = [near[at : at + width] for at in range(0, len(near), width)] + away
        yield (ANYWHERE, 2, 2), spread if place(spread, self._cluster) else self._largest_first(gpus)

    def _largest_first(self, gpus: int) -> list[list[int]]:
        """The GPUs of a gang by machine of each rack, if it takes the largest racks and machines whole."""
        nodes, example = self._cluster.nodes, []
        by_rack = [
            sorted((nodes[at].gpus for at in rack), reverse=True) for rack in self._cluster.nodes_by_rack
        ]
        for rack in sorted(by_rack, key=sum, reverse=True):
            reached = np.minimum(np.cumsum([0, *rack]), gpus)
            taken = np.diff(reached)
            gpus -= int(reached[-1])
            example.append(taken[taken > 0].tolist())
        return [machines for machines in example if machines] + [[gpus]] * (gpus > 0)


def _unevenly(gpus: int, largest: int) -> list[int]:
    """A gang on as few machines as hold it, and on one more if each of these would have as many of its GPUs."""
    whole, left = divmod(gpus, largest)
    machines = [largest] * whole + [left] * (left > 0)
    if len(set(machines)) == 1 and machines[-1] > 1:
        machines[-1] -= 1
        machines.append(1)
    return machines
