"""The fair share: what a job needs to be as fast as with its GPU-proportional share; and placing jobs with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import WHOLE, Bools, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput, DraftAllocator
from muster.schedulers.allocation.fair_share_core import keep_rows
from muster.schedulers.allocation.gangs import Gangs, request_above_share, usable_kinds
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.contract import Snapshot
from muster.speed.demands import ResourceProfiles


@dataclass(frozen=True)
class FairShareAllocator(DraftAllocator):
    """An allocator under which no job is slower than with its GPU-proportional share."""

    def choose_draft(self, given: AllocationInput) -> PlacementDraft:
        """Return the best draft, in which stopped jobs go on where their GPUs are not used."""
        draft = self.best_draft(given)
        keep_stopped(given.snapshot, given.gangs, draft, given.ranked, given.chosen)
        return draft

    def best_draft(self, given: AllocationInput) -> PlacementDraft:
        """Return the draft that is worth most."""
        raise NotImplementedError

    def least_per_gpu(self, snapshot: Snapshot) -> Ints:
        """Return the fair demand of each job on the nodes that suit it best."""
        return least_fair_demand(snapshot, snapshot.resource_profiles)


def least_fair_demand(snapshot: Snapshot, profiles: ResourceProfiles) -> Ints:
    """Return the fair demand of each job by these profiles, on the nodes that suit it best."""
    jobs = snapshot.jobs
    classes, demands = profiles.of(jobs.model, jobs.gpus, jobs.requested_per_gpu)
    fair: Ints = demands.fair[:, profiles.kinds["gpus"] > 0].min(axis=1)[classes]
    return fair


def by_demand_descending(draft: PlacementDraft, gangs: Gangs, chosen: Bools) -> Ints:
    """Return fixed jobs, then chosen movable ones; each by GPUs, then CPUs, then memory demanded, descending.

    Jobs that are placed later see what fixed jobs leave them. Those that request more than their share come before
    the others.
    """
    served = np.flatnonzero((chosen & draft.movable) | draft.fixed)
    per_gpu = np.where(
        usable_kinds(gangs)[served, :, None], gangs.demands.best[gangs.classes[served]], 0
    ).max(axis=1)
    gpus = gangs.gpus[served]
    above = request_above_share(gangs, served)
    keys = -gpus * per_gpu[:, 2], -gpus * per_gpu[:, 1], -gpus, ~above, draft.movable[served]
    return served[np.lexsort(keys)]


def keep_stopped(
    snapshot: Snapshot, gangs: Gangs, draft: PlacementDraft, ranked: Ints, chosen: Bools
) -> None:
    """Give running jobs that lost their place to no other job their GPUs back, with their fair share, by rank.

    Not while chosen jobs of a share of a GPU wait: those are placed last, and the GPUs may be for them.
    """
    jobs = snapshot.jobs.at(ranked)
    if not ((jobs.gpu_milli < WHOLE) & jobs.waiting & chosen[ranked]).any():
        keep_rows(snapshot.ledger.books, snapshot.jobs.index, draft, gangs, ranked)
