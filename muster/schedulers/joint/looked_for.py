"""When to look for better places for the same jobs again: once enough of them changed since that was last done.

A decision costs in proportion to what changed: while jobs only come and wait, those that run are not placed again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.ageing import places_among
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.worth import REACHED


@dataclass(frozen=True)
class LookedFor:
    """For which jobs other places were last looked for than those of a plan."""

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
    def of(cls, given: AllocationInput, gangs: Gangs, kept: PlacementDraft, lost: Floats) -> LookedFor:
        """Return what to remember if other places than those of `kept` were looked for; `lost` is by position."""
        held, jobs = np.where(kept.first >= 0, gangs.gpus, 0), given.snapshot.jobs.index.copy()
        return cls(given.opened.gpus, jobs, held, kept.movable, lost)

    def changed(self, given: AllocationInput, gangs: Gangs, kept: PlacementDraft, lost: Floats) -> float:
        """Return for which part of the GPUs the question is another one now.

        Those are the GPUs of jobs that have a place and had none, or another size, or are no longer to keep it, or lose
        less in another one; or those that jobs left and that came or went, if these are more.
        """
        at, known = places_among(given.snapshot.jobs.index, self.jobs)
        placed, had_place = kept.first >= 0, known & (self.held[at] == gangs.gpus)
        same = had_place & (self.movable[at] | ~kept.movable) & (self.lost[at] <= lost + REACHED)
        others = gangs.gpus[placed & ~same].sum()
        left = self.held.sum() - self.held[at[had_place & placed]].sum() + abs(given.opened.gpus - self.gpus)
        return float(max(others, left)) / max(given.opened.gpus, 1)
