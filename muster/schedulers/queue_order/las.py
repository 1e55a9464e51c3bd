"""Least attained service (Tiresias, NSDI'19), plain or in queues."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.contract import Jobs, Snapshot, State
from muster.schedulers.parts import GPU_SECONDS, Order, check_seconds, setting
from muster.schedulers.queue_order.keys import seconds_to_level


@dataclass(frozen=True)
class Las(Order):
    """Least attained GPU-seconds first, preemptive, asked again every quantum; optionally in FIFO queues."""

    name: ClassVar[str] = "las"
    compiled: ClassVar[int | None] = 7
    time_slices: ClassVar[bool] = True

    queues: tuple[float, ...] = setting(
        (), "GPU-seconds at which a job falls to the next queue; by arrival inside"
    )
    quantum_seconds: float = setting(300.0, "seconds between decisions while jobs overtake each other")

    def __post_init__(self) -> None:
        check_seconds(self, "quantum_seconds")

    @property
    def key_unit(self) -> str:
        """GPU-seconds; a queue's number has no unit."""
        return "" if self.queues else GPU_SECONDS

    def key(self, jobs: Jobs) -> Floats:
        """Attained service, or the number of the queue."""
        attained = jobs.attained_service
        if not self.queues:
            return attained
        return np.searchsorted(np.array(self.queues), attained, side="right").astype(np.float64)

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
        """When a running job has attained as much as the next waiting job, or falls to the next queue."""
        if not len(waiting) or not len(running):
            return inf
        falls = bool(self.queues)
        levels = np.array(self.queues, np.float64) if falls else np.sort(keys[waiting])
        attained = snapshot.jobs.attained_service if falls else keys
        asked, facts = snapshot.table.asked, snapshot.table.facts
        return snapshot.now + seconds_to_level(
            levels, falls, asked, facts, snapshot.jobs.index, attained, running
        )

    def margin(self) -> float:
        """Two, so that jobs of like age do not change places at each quantum; queues see to that by themselves."""
        return 1.0 if self.queues else 2.0

    def quantum(self) -> float:
        """The setting."""
        return self.quantum_seconds
