"""Allocation by the owner's word, as Slurm and Kubernetes do it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Ints, Jobs, Snapshot
from muster.schedulers.parts import Allocation
from muster.schedulers.placement.job_columns import PROPORTIONAL


@dataclass(frozen=True)
class Requested(Allocation):
    """The CPU and memory that the owner asked for; the proportional share where nothing was said."""

    name: ClassVar[str] = "requested"
    compiled: ClassVar[int | None] = 1

    def resource_options(self, snapshot: Snapshot, jobs: Jobs) -> Ints:
        """One rung a job: the request by GPU."""
        options: Ints = np.where(jobs.requested >= 0, jobs.requested_per_gpu, PROPORTIONAL)
        return options[:, None]
