"""When it may pay to look for better places for the same jobs: by what these lacked when that was last done.

A decision costs in proportion to what changed: while jobs only come and wait, those that run are not placed again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.placement_draft import PlacementDraft


@dataclass(frozen=True)
class KeptPlaces:
    """By how much other places for the jobs of a plan were worth less than theirs, and of what that was."""

    lacked: float
    gpus: int
    """GPUs that jobs had or could get."""
    jobs: Ints
    """The numbers of all jobs, ascending."""
    held: Ints
    """The GPUs of each in the plan; 0: it had no place."""
    movable: Bools
    """Whether each could be placed again."""
    lost: Floats
    """The part of its speed that each lost in another place."""

    @classmethod
    def of(cls, given: AllocationInput, kept: PlacementDraft, lost: Floats, lacked: float) -> KeptPlaces:
        """Return what to remember if other places than those of `kept` lacked so much; `lost` is by position."""
        held, jobs = np.where(kept.first >= 0, given.gangs.gpus, 0), given.snapshot.jobs.index.copy()
        return cls(lacked, given.opened.gpus, jobs, held, kept.movable, lost)

    def may_lack(
        self, given: AllocationInput, kept: PlacementDraft, lost: Floats, most: Floats, counts: Floats
    ) -> float:
        """Return what other places than those of `kept` lack at least now, by what each job counts at most and there.

        That is as much as then, less what may be gained by jobs that had no place then or were to keep it, by those
        that lose less in another place now, and on the GPUs that others left, for each as much as the mean of all jobs.
        """
        index, placed = given.snapshot.jobs.index, kept.first >= 0
        at = np.minimum(np.searchsorted(self.jobs, index), len(self.jobs) - 1)
        known = (self.jobs[at] == index) & (self.held[at] > 0)
        gains = np.where(placed, np.maximum(most - counts, 0.0), 0.0)
        as_free = known & (self.movable[at] | ~kept.movable)
        cheaper = np.maximum(self.lost[at] - lost, 0.0) * counts
        ended = self.held.sum() - self.held[at[known & placed]].sum()
        more = max(given.opened.gpus - self.gpus, 0)
        mean = gains.sum() / max(given.gangs.gpus[placed].sum(), 1)
        return self.lacked - float(np.where(as_free, cheaper, gains).sum() + (ended + more) * mean)
