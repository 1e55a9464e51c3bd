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
        """One rung a job: the request by GPU, rounded up."""
        ladder = np.full((len(jobs), 1, 4), PROPORTIONAL)
        gpu_milli = jobs.gpus * jobs.gpu_milli
        for resource, asked in ((CPU, jobs.cpus_micro), (MEMORY, jobs.memory_micro)):
            said = asked >= 0
            ladder[said, 0, resource] = -(-asked[said] * 1000 // gpu_milli[said])
        return ladder
