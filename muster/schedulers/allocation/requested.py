"""Allocation by the owner's word, as Slurm and Kubernetes do it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.books import CPU, MEMORY
from muster.schedulers.contract import Ints, Jobs, View
from muster.schedulers.parts import Allocation
from muster.schedulers.placement.kernels import PROPORTIONAL


@dataclass(frozen=True)
class Requested(Allocation):
    """The CPU and memory that the owner asked for; the proportional share where nothing was said."""

    name: ClassVar[str] = "requested"

    def ladder(self, view: View, jobs: Jobs) -> Ints:
        """One rung a job: the request by GPU."""
        ladder = np.full((len(jobs), 1, 4), PROPORTIONAL)
        requested = jobs.requested_per_gpu
        for resource, amount in ((CPU, jobs.cpus_micro), (MEMORY, jobs.memory_micro)):
            ladder[:, 0, resource] = np.where(amount >= 0, requested[:, resource], PROPORTIONAL)
        return ladder
