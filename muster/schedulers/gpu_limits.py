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

    @property
    def room(self) -> Floats:
        """By group: what its jobs may still have beyond what they count."""
        return np.maximum(self.left, 0.0)

    @property
    def exceeded(self) -> Bools:
        """By position: whether jobs of its group have more than they may have, so that no other one may start."""
        exceeded: Bools = (self.group != NONE) & (self.left[self.group] < 0)
        return exceeded

    def usage(self, at: Ints, gpus: Ints | Floats) -> Floats:
        """Return a row for each job at these positions: by group, the GPUs beyond those counted."""
        beyond = np.maximum(gpus - self.counted[at], 0.0)
        of_group: Floats = beyond[:, None] * (self.group[at, None] == np.arange(len(self.left)))
        return of_group

    def allows(self, at: Ints, gpus: Ints | Floats) -> bool:
        """Return whether jobs may have so many GPUs together."""
        return bool((self.usage(at, gpus).sum(axis=0) <= self.room).all())

    def beside(self, at: Ints, gpus: Ints | Floats) -> GpuLimits:
        """Return the same with so many GPUs counted for these jobs, if that is more than before."""
        counted = self.counted.copy()
        counted[at] = np.maximum(counted[at], gpus)
        return replace(self, counted=counted, left=self.left - self.usage(at, gpus).sum(axis=0))

    def most_gpus(self, order: Ints, wanted: Ints | Floats) -> Floats:
        """Return by position how many GPUs each job may have if those first in the order get what they want.

        `wanted` is by position; a job that is not in the order may have what it counts.
        """
        most = np.where(self.group == NONE, np.inf, self.counted)
        left = self.room
        for at in order[self.group[order] != NONE].tolist():
            more = min(max(float(wanted[at]) - most[at], 0.0), float(left[self.group[at]]))
            most[at] += more
            left[self.group[at]] -= more
        return most
