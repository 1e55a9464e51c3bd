"""Shortest remaining time first, by time or by GPU time."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Floats, Ints, Jobs, Snapshot, State
from muster.schedulers.parts import DURATIONS, GPU_SECONDS, SECONDS, Order


@dataclass(frozen=True)
class Srtf(Order):
    """Shortest remaining time first, preemptive; where durations are unknown, least attained service first."""

    name: ClassVar[str] = "srtf"
    compiled: ClassVar[int | None] = 5
    needs: ClassVar[tuple[str, ...]] = (DURATIONS,)

    @property
    def key_unit(self) -> str:
        """Seconds."""
        return SECONDS

    def key(self, jobs: Jobs) -> Floats:
        """Remaining seconds at the reference."""
        remaining = jobs.estimated_remaining
        if jobs.durations_known:
            return remaining
        return np.where(np.isnan(remaining), jobs.attained_service, remaining)

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
        """Never while durations are known: running jobs only come closer to their end."""
        return inf if snapshot.jobs.durations_known else -inf

    def quantum(self) -> float:
        """Only needed while it orders by attained service."""
        return 300.0


@dataclass(frozen=True)
class Srsf(Srtf):
    """Shortest remaining service (time x GPUs) first, preemptive."""

    name: ClassVar[str] = "srsf"
    compiled: ClassVar[int | None] = 6

    @property
    def key_unit(self) -> str:
        """GPU-seconds."""
        return GPU_SECONDS

    def key(self, jobs: Jobs) -> Floats:
        """Remaining GPU-seconds at the reference."""
        return super().key(jobs) * jobs.gpus


@dataclass(frozen=True)
class Sjf(Order):
    """Shortest job first by its whole duration; running jobs are left alone."""

    name: ClassVar[str] = "sjf"
    compiled: ClassVar[int | None] = 1
    needs: ClassVar[tuple[str, ...]] = (DURATIONS,)
    preemptive: ClassVar[bool] = False
    static_priority: ClassVar[bool] = True

    def key(self, jobs: Jobs) -> Floats:
        """Seconds of all the work at the reference; where unknown, arrival decides."""
        return np.nan_to_num(jobs.estimated_total)
