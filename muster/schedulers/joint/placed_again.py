"""When it may pay to place all jobs again: by what that was worth when it was last done.

A decision costs in proportion to what changed: while jobs only come and wait, no plan is made from an empty cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.ageing import places_among
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.joint.modelled_speeds import ANY_TYPE, TypedSizes, is_type


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
    size: NDArray[np.int32]
    """The GPUs of each."""
    gpu_type: NDArray[np.int16]
    """The type of GPU that each was to have; `ANY_TYPE`: whichever."""
    fixed: Ints
    """GPUs of those that kept their places; 0: of others."""

    @classmethod
    def of(cls, given: AllocationInput, sizes: TypedSizes, most: Floats, worth: float) -> PlacedAgain:
        """Return what to remember of a plan of this worth; `most` is what each job counts at most, by position."""
        opened, index = given.opened, given.snapshot.jobs.index.copy()
        counted, fixed = np.where(opened.planned, most, 0.0), np.where(opened.fixed, sizes.gpus, 0)
        size, gpu_type = sizes.gpus.astype(np.int32), sizes.gpu_type.astype(np.int16)
        return cls(worth, opened.gpus, index, counted, size, gpu_type, fixed)

    def may_be_worth(self, given: AllocationInput, sizes: TypedSizes, most: Floats) -> float:
        """Return what such a plan may be worth now; `most` is what each job counts at most now, by position.

        That is as much as then, and what jobs may count more, or came with, or count on another size or type. On GPUs
        that the plan had not, those that jobs have less now and those of jobs that kept their places then and may leave
        now or are gone, the densest job of all counts in addition. Jobs that are gone otherwise leave room for those
        that had none, which the plan preferred to leave out.
        """
        index, planned = given.snapshot.jobs.index, given.opened.planned
        at, known = places_among(index, self.jobs)
        less = np.where(known, self.size[at] - sizes.gpus, 0)
        types, then = sizes.gpu_type, self.gpu_type[at].astype(np.int64)
        as_before = known & (less == 0) & (is_type(types, then) | (types == ANY_TYPE))
        more = np.maximum(most - np.where(as_before, self.most[at], 0.0), 0.0)[planned].sum()
        still_fixed = self.fixed[at[known & given.opened.fixed]].sum()
        freed = (
            self.fixed.sum()
            - still_fixed
            + max(given.opened.gpus - self.gpus, 0)
            + np.maximum(less, 0)[planned].sum()
        )
        densest = (most[planned] / sizes.gpus[planned]).max(initial=0.0)
        return self.worth + float(more) + float(freed) * float(densest)
