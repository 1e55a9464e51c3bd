"""When it may pay to look for better places for the same jobs: by what these lacked when that was last done.

A decision costs in proportion to what changed: while jobs only come and wait, those that run are not placed again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.placement_draft import PlacementDraft


@dataclass(frozen=True)
class KeptPlaces:
    """By how much other places for the jobs of a plan were worth less than theirs, and of what that was."""

    lacked: float
    room: int
    """GPUs that no job had."""
    jobs: Ints
    """The numbers of all jobs, ascending."""
    freedom: Ints
    """What each could do; see `_freedom`."""
    lost: Floats
    """The part of its speed that each lost in another place."""

    @classmethod
    def of(cls, given: AllocationInput, kept: PlacementDraft, lost: Floats, lacked: float) -> KeptPlaces:
        """Return what to remember if other places than those of `kept` lacked so much; `lost` is by position."""
        return cls(lacked, _room(given, kept), given.snapshot.jobs.index.copy(), _freedom(kept), lost)

    def may_lack(
        self, given: AllocationInput, kept: PlacementDraft, lost: Floats, most: Floats, counts: Floats
    ) -> float:
        """Return what other places than those of `kept` lack at least now, by what each job counts at most and there.

        That is as much as then, less what may be gained by jobs that had no place then or were to keep it, by those
        that lose less in another place now, and, on GPUs that no job has now, by the one that gains most for a GPU.
        """
        index, freedom = given.snapshot.jobs.index, _freedom(kept)
        at = np.minimum(np.searchsorted(self.jobs, index), len(self.jobs) - 1)
        as_free = (self.jobs[at] == index) & (self.freedom[at] >= freedom)
        gains = np.where(freedom > 0, np.maximum(most - counts, 0.0), 0.0)
        cheaper = np.maximum(self.lost[at] - lost, 0.0) * counts
        more_room = max(_room(given, kept) - self.room, 0)
        densest = (gains / given.gangs.gpus).max(initial=0.0)
        return self.lacked - float(np.where(as_free, cheaper, gains).sum()) - more_room * float(densest)


def _freedom(plan: PlacementDraft) -> Ints:
    """Return by position: 0 for a job without a place, 1 for one that keeps it, 2 for one that may have another."""
    freedom: Ints = ((plan.first >= 0) * (1 + plan.movable)).astype(np.int8)
    return freedom


def _room(given: AllocationInput, plan: PlacementDraft) -> int:
    """Return the GPUs that a plan leaves."""
    return given.opened.gpus - int(given.gangs.gpus[plan.first >= 0].sum())
