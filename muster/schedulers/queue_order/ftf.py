"""Finish-time fairness (Themis, NSDI'20)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Floats, Snapshot, State
from muster.schedulers.parts import DURATIONS, Order


@dataclass(frozen=True)
class Ftf(Order):
    """Most unfairly treated first: time in the system and still needed, over time alone on a fair share."""

    name: ClassVar[str] = "ftf"
    time_slices: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = (DURATIONS,)

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Minus rho; the fair share of n jobs is 1/n of all GPUs, and no job gains from more than it asked for.

        Where durations are unknown, time in the system over time served stands for rho.
        """
        jobs = snapshot.jobs
        in_system = snapshot.now - jobs.arrival
        slowed_by = np.maximum(1.0, jobs.requested_gpus * len(jobs) / snapshot.cluster.total_gpus)
        rho = (in_system + jobs.estimated_remaining) / (jobs.estimated_total * slowed_by)
        served = in_system / np.maximum(jobs.run_seconds, 1.0)
        return -np.where(np.isnan(rho), served, rho), state

    def quantum(self) -> float:
        """Ratios drift all the time."""
        return 300.0
