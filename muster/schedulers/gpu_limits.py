"""How many GPUs groups of jobs may have in all, for schedulers that choose the sizes of jobs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from muster.cluster.ledger_arrays import NONE, Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class GpuLimits:
    """What a filter has counted for each job, and how many more GPUs than that the jobs of a group may have."""

    group: Ints
    """By position: the number of the job's group; `NONE`: it may have as many as there are."""
    counted: Floats
    """By position: GPUs that the job may have in any case."""
    left: Floats
    """By group: GPUs that its jobs may have in all beyond those."""

    def at(self, jobs: Bools | Ints) -> GpuLimits:
        """Return the same for some of the jobs."""
        return replace(self, group=self.group[jobs], counted=self.counted[jobs])

    def usage(self, at: Ints, gpus: Ints | Floats) -> Floats:
        """Return a row for each job at these positions: by group, the GPUs beyond those counted."""
        beyond = np.maximum(gpus - self.counted[at], 0.0)
        of_group: Floats = beyond[:, None] * (self.group[at, None] == np.arange(len(self.left)))
        return of_group

    def beside(self, at: Ints, gpus: Ints | Floats) -> GpuLimits:
        """Return what is left beside jobs that have so many GPUs."""
        return replace(self, left=np.maximum(self.left - self.usage(at, gpus).sum(axis=0), 0.0))

    def most_gpus(self, order: Ints, wanted: Ints | Floats) -> Floats:
        """Return by position how many GPUs each job may have if those first in the order get what they want.

        `wanted` is by position; a job that is not in the order may have what it counts.
        """
        most = np.where(self.group == NONE, np.inf, self.counted)
        left = self.left.copy()
        for at in order[self.group[order] != NONE].tolist():
            more = min(max(float(wanted[at]) - most[at], 0.0), float(left[self.group[at]]))
            most[at] += more
            left[self.group[at]] -= more
        return most
