"""The knee: the smallest demand per GPU that reaches a model's best speed on one server (Synergy §4.1).

Best is what the limits allow: all CPUs and memory that one server can give a GPU of the job. Of the demands
within the tolerance of it, the knee is the one that costs least, CPUs and memory each counted as parts of
one GPU's proportional share of the server; of equal costs the one with fewer CPUs. A knee is never below
the smallest measured point, unless the server itself is: below it nothing is known.

Speeds here are those of the matrix, at the storage bandwidth it was measured with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from muster.workload.models import Model

FloatArray: TypeAlias = npt.NDArray[np.float64]
_ROUNDING = 1e-9
"""Amounts and speeds this close, relatively, are the same."""


@dataclass(frozen=True)
class Demand:
    """What a job asks per GPU, and its speed there relative to the model's reference."""

    cpus: float
    memory_gb: float
    speed: float


@dataclass(frozen=True)
class ServerLimits:
    """What one server can give each GPU of a job, at most and fairly; all above 0."""

    most_cpus: float
    """All that the server has, divided by the job's GPUs on it."""
    most_memory_gb: float
    share_cpus: float
    """The GPU-proportional share: the server's CPUs divided by the server's GPUs."""
    share_memory_gb: float


def measured_knee(model: Model, limits: ServerLimits, tolerance: float = 0.0) -> Demand:
    """The knee among the measured points; on the surface between them where the server is below them all."""
    within = [
        Demand(cpus, memory, model.speed[row][column])
        for row, cpus in enumerate(model.cpus_per_gpu)
        for column, memory in enumerate(model.memory_gb_per_gpu)
        if cpus <= limits.most_cpus and memory <= limits.most_memory_gb
    ]
    if not within:
        return surface_knee(model, limits, tolerance)
    wanted = max(demand.speed for demand in within) * (1 - tolerance) * (1 - _ROUNDING)
    return _cheapest((demand for demand in within if demand.speed >= wanted), limits)


def surface_knee(model: Model, limits: ServerLimits, tolerance: float = 0.0) -> Demand:
    """The knee on the interpolated surface of `input_pipeline`, measured points or not."""
    surface = _Surface(model, limits)
    seconds = 1 / (surface.best_speed * (1 - tolerance))
    demands = []
    for cpus in surface.candidate_cpus(seconds, limits):
        memory = surface.least_memory(cpus, seconds)
        if memory is not None:
            demands.append(Demand(cpus, memory, surface.speed(cpus, memory)))
    return _cheapest(demands, limits)


def _cheapest(demands: Iterable[Demand], limits: ServerLimits) -> Demand:
    def cost(demand: Demand) -> float:
        return demand.cpus / limits.share_cpus + demand.memory_gb / limits.share_memory_gb

    return min(demands, key=lambda demand: (round(cost(demand), 9), demand.cpus))


class _Surface:
    """The part of a model's interpolated speed that one server can reach."""

    def __init__(self, model: Model, limits: ServerLimits) -> None:
        self._cpus = np.array(model.cpus_per_gpu)
        self._memory = np.array(model.memory_gb_per_gpu)
        self._speed = np.array(model.speed)
        most_cpus = min(limits.most_cpus, model.cpus_per_gpu[-1])
        between = [cpus for cpus in model.cpus_per_gpu if cpus < most_cpus]
        self._knots = [*between, most_cpus]
        self._most_memory = min(limits.most_memory_gb, model.memory_gb_per_gpu[-1])
        self._least_memory = min(limits.most_memory_gb, model.memory_gb_per_gpu[0])
        self.best_speed = self.speed(most_cpus, self._most_memory)

    def _seconds_by_column(self, cpus: float) -> FloatArray:
        """1 / speed at each memory point: speed is linear in CPUs, from 0 on below the first point."""
        low = min(1.0, cpus / self._cpus[0])
        return np.array([1 / (low * np.interp(cpus, self._cpus, column)) for column in self._speed.T])

    def speed(self, cpus: float, memory_gb: float) -> float:
        """Relative speed at a point: between memory points its inverse is linear."""
        return 1 / float(np.interp(memory_gb, self._memory, self._seconds_by_column(cpus)))

    def least_memory(self, cpus: float, seconds: float) -> float | None:
        """The least memory with which these CPUs are as fast as wanted, if the server has it."""
        took = self._seconds_by_column(cpus)
        if took[0] <= seconds * (1 + _ROUNDING):
            return self._least_memory
        for column in range(1, len(took)):
            if took[column] > seconds * (1 + _ROUNDING):
                continue
            share = min(1.0, (took[column - 1] - seconds) / (took[column - 1] - took[column]))
            low, high = self._memory[column - 1], self._memory[column]
            memory = float(low + share * (high - low)) if share < 1 - _ROUNDING else float(high)
            return min(memory, self._most_memory) if memory <= self._most_memory * (1 + _ROUNDING) else None
        return None

    def candidate_cpus(self, seconds: float, limits: ServerLimits) -> Iterator[float]:
        """CPU amounts of which one is the knee's: all places where the cheapest demand can lie.

        Inside a cell of the grid the memory needed is a smooth function of the CPUs, so the cost is least at
        the cell's corners, where the line of that speed enters or leaves it, or where the slope is 0.
        """
        yield from self._knots
        for low, high in pairwise(self._knots):
            roots = self._roots(low, high, seconds, limits)
            inside = (roots > low * (1 + _ROUNDING)) & (roots < high * (1 - _ROUNDING))
            yield from map(float, roots[inside])

    def _roots(self, low: float, high: float, seconds: float, limits: ServerLimits) -> FloatArray:
        """Those places between two knots, and others that do no harm, as roots of polynomials in CPUs x.

        With speeds v = a + b x at the memory point before and w = c + d x at the one after, the share of the
        way between them that is needed is w (1 - seconds v) / (w - v).
        """
        at_low, at_high = 1 / self._seconds_by_column(low), 1 / self._seconds_by_column(high)
        slopes = (at_high - at_low) / (high - low)
        starts = at_low - slopes * low
        a, b, c, d = starts[:-1], slopes[:-1], starts[1:], slopes[1:]
        above = (c * (1 - seconds * a), d * (1 - seconds * a) - c * seconds * b, -d * seconds * b)
        below = (c - a, d - b)
        width = np.diff(self._memory)
        most_share = (self._most_memory - self._memory[:-1]) / width
        exchange = limits.share_memory_gb / (limits.share_cpus * width)
        return np.concatenate(
            [
                # The speed wanted is reached at a memory point, or with the most memory.
                _quadratic_roots(1 - seconds * starts, -seconds * slopes, np.zeros_like(slopes)),
                _quadratic_roots(
                    above[0] - most_share * below[0], above[1] - most_share * below[1], above[2]
                ),
                # above' below - above below' + exchange below^2 = 0: the cost's slope is 0.
                _quadratic_roots(
                    above[1] * below[0] - above[0] * below[1] + exchange * below[0] ** 2,
                    2 * below[0] * (above[2] + exchange * below[1]),
                    below[1] * (above[2] + exchange * below[1]),
                ),
            ]
        )


def _quadratic_roots(constant: FloatArray, linear: FloatArray, square: FloatArray) -> FloatArray:
    """Roots of each polynomial; where there are fewer, a number that means nothing, none or infinity."""
    sum_of_two = linear + np.copysign(np.sqrt(np.maximum(linear**2 - 4 * constant * square, 0)), linear)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate([-sum_of_two / (2 * square), -2 * constant / sum_of_two])
