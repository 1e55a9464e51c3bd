"""Shortest remaining service, counted on the place where the job would go fastest (ours)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Floats, Ints, Snapshot, State
from muster.schedulers.parts import DURATIONS, GPU_SECONDS, Order, check_seconds, setting
from muster.speed.network.forms import PlacementShapes


@dataclass(frozen=True)
class SrsfPlaced(Order):
    """Shortest remaining service at the best place first, after those that decide the makespan; preemptive."""

    name: ClassVar[str] = "srsf-placed"
    needs: ClassVar[tuple[str, ...]] = (DURATIONS,)

    quantum_seconds: float = setting(3600.0, "seconds between decisions while nothing happens")

    def __post_init__(self) -> None:
        check_seconds(self, "quantum_seconds")

    @property
    def key_unit(self) -> str:
        """GPU-seconds."""
        return GPU_SECONDS

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """GPU-seconds left at the network's best; minus the seconds left of a job that cannot wait.

        A job cannot wait if it needs, from now on, as long as all the work left would take on all GPUs: whenever
        it starts later, everything ends later. Where durations are unknown: attained service.
        """
        jobs = snapshot.jobs
        if not jobs.durations_known:
            return jobs.attained_service, state
        line, forms = (snapshot.forms or PlacementShapes(None, snapshot.cluster)).of(jobs.model, jobs.gpus)
        seconds = jobs.estimated_remaining / forms.speeds[line, 0]
        service = seconds * jobs.requested_gpus
        everything = max(service.sum() / snapshot.cluster.total_gpus, seconds.max(initial=0.0))
        return np.where(seconds >= everything, -seconds, service), state

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
        """Cannot say: while others run, a waiting job comes closer to deciding the makespan."""
        return -np.inf

    def quantum(self) -> float:
        """The setting."""
        return self.quantum_seconds
