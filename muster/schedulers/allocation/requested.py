"""Allocation by the owner's word, as Slurm and Kubernetes do it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import CPU, MEMORY
from muster.schedulers.contract import Ints, Jobs, Snapshot
from muster.schedulers.parts import Allocation
from muster.schedulers.placement.kernels import PROPORTIONAL


@dataclass(frozen=True)
class Requested(Allocation):
    """The CPU and memory that the owner asked for; the proportional share where nothing was said."""

    name: ClassVar[str] = "requested"

    def resource_options(self, snapshot: Snapshot, jobs: Jobs) -> Ints:
        """One rung a job: the request by GPU."""
        resource_options = np.full((len(jobs), 1, 4), PROPORTIONAL)
        requested = jobs.requested_per_gpu
        for resource, amount in ((CPU, jobs.cpus_micro), (MEMORY, jobs.memory_micro)):
            resource_options[:, 0, resource] = np.where(amount >= 0, requested[:, resource], PROPORTIONAL)
        return resource_options
