"""Least attained service (Tiresias, NSDI'19), plain or in queues."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Floats, Ints, Jobs, View
from muster.schedulers.parts import Order, setting


@dataclass(frozen=True)
class Las(Order):
    """Least attained GPU-seconds first, preemptive, asked again every quantum; optionally in FIFO queues."""

    name: ClassVar[str] = "las"
    takes_turns: ClassVar[bool] = True

    queues: tuple[float, ...] = setting(
        (), "GPU-seconds at which a job falls to the next queue; by arrival inside"
    )
    quantum_seconds: float = setting(300.0, "seconds between decisions while jobs overtake each other")

    def key(self, jobs: Jobs) -> Floats:
        """Attained service, or the number of the queue."""
        attained = jobs.attained_service
        if not self.queues:
            return attained
        return np.searchsorted(np.array(self.queues), attained, side="right").astype(np.float64)

    def overtaken_at(self, view: View, keys: Floats, running: Ints, waiting: Ints) -> float:
        """When a running job has attained as much as the next waiting job, or falls to the next queue."""
        if not len(waiting) or not len(running):
            return inf
        runs = view.jobs.at(running)
        attained = runs.attained_service
        if self.queues:
            levels = np.append(np.array(self.queues), inf)
            goal = levels[np.searchsorted(levels, attained, side="right")]
        else:
            levels = np.append(np.sort(keys[waiting]), inf)
            goal = levels[np.searchsorted(levels, attained, side="left")]
        held = runs.held_gpus
        gpus = np.where(held > 0, held, runs.requested_gpus)
        return float((view.now + (goal - attained) / gpus).min())

    def quantum(self) -> float:
        """The setting."""
        return self.quantum_seconds
