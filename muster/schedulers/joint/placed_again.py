"""When it may pay to place all jobs again: by what that was worth when it was last done.

A decision costs in proportion to what changed: while jobs only come and wait, no plan is made from an empty cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.ageing import places_among
from muster.schedulers.allocation.draft_allocator import AllocationInput


@dataclass(frozen=True)
class PlacedAgain:
    """The best plan in which all jobs were placed again: its worth if restarts cost nothing, and what it was of."""

    worth: float
    gpus: int
    """GPUs that jobs had or could get."""
    jobs: Ints
    """Their numbers, ascending."""
    most: Floats
    """What each counted at most."""
    fixed: Ints
    """GPUs of those that kept their places; 0: of others."""

    @classmethod
    def of(cls, given: AllocationInput, most: Floats, worth: float) -> PlacedAgain:
        """Return what to remember of a plan of this worth; `most` is what each job counts at most, by position."""
        opened, jobs = given.opened, given.snapshot.jobs
        counted = np.where(opened.planned, most, 0.0)
        return cls(worth, opened.gpus, jobs.index.copy(), counted, np.where(opened.fixed, jobs.gpus, 0))

    def may_be_worth(self, given: AllocationInput, most: Floats) -> float:
        """Return what such a plan may be worth now; `most` is what each job counts at most now, by position.

        That is as much as then, and what jobs may count more, or came with. On GPUs that the plan had not, those of
        jobs that kept their places then and may leave now or are gone, the densest job of all counts in addition. Jobs
        that are gone otherwise leave room for those that had none, which the plan preferred to leave out.
        """
        index, planned, gpus = given.snapshot.jobs.index, given.opened.planned, given.gangs.gpus
        at, known = places_among(index, self.jobs)
        more = np.maximum(most - np.where(known, self.most[at], 0.0), 0.0)[planned].sum()
        still_fixed = self.fixed[at[known & given.opened.fixed]].sum()
        freed = self.fixed.sum() - still_fixed + max(given.opened.gpus - self.gpus, 0)
        densest = (most[planned] / gpus[planned]).max(initial=0.0)
        return self.worth + float(more) + float(freed) * float(densest)
