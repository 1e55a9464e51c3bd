"""Greedy allocation (Synergy §5.1): the whole best-case demand or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import Books, Ints
from muster.compiling import njit
from muster.schedulers.allocation.draft_allocator import AllocationInput, DraftAllocator
from muster.schedulers.allocation.gangs import Gangs, has_room, place_gang, set_level
from muster.schedulers.allocation.node_search import GpuChoice, pick
from muster.schedulers.allocation.placement_draft import PlacementDraft, keep_amounts
from muster.schedulers.parts import setting


@dataclass(frozen=True)
class Greedy(DraftAllocator):
    """The whole best-case demand by first fit, all jobs again; a job whose demand fits nowhere is passed (Synergy)."""

    name: ClassVar[str] = "greedy"
    by_order: ClassVar[bool] = True

    gpu_choice: GpuChoice = setting("first-fit", "how servers are chosen: first-fit or consolidating")
    listed: bool = setting(
        False, "only jobs whose GPUs fit by the walk in order are tried, as under the published LAS"
    )

    def choose_draft(self, given: AllocationInput) -> PlacementDraft:
        """First fit in order; running jobs that may not move keep what they have."""
        books, index = given.snapshot.ledger.books, given.snapshot.jobs.index
        tried = given.ranked[given.chosen[given.ranked]] if self.listed else given.ranked
        _place(books, index, given.opened, given.gangs, tried, self.gpu_choice == "consolidating")
        return given.opened


@njit(cache=True)
def _place(
    books: Books, index: Ints, draft: PlacementDraft, gangs: Gangs, tried: Ints, consolidating: bool
) -> None:
    keep_fixed(books, index, draft, gangs)
    take = np.zeros(len(gangs.kind_of_node), np.int64)
    budget = draft.free[:, 0].sum()
    for at in tried:
        if budget == 0:
            break
        if not draft.movable[at] or gangs.gpus[at] > budget:
            continue
        need = gangs.demands.published[gangs.classes[at]]
        if pick(draft, gangs, at, need, consolidating, take):
            budget -= gangs.gpus[at]
            place_gang(draft, gangs, at, need, take)


@njit(cache=True)
def keep_fixed(books: Books, index: Ints, draft: PlacementDraft, gangs: Gangs) -> None:
    """Fixed jobs keep what they have; those with less than their demand get all of it where it is free."""
    keep_amounts(books, index, draft)
    for at in range(len(index)):
        if draft.fixed[at]:
            need = gangs.demands.published[gangs.classes[at]]
            if has_room(draft, gangs, at, need):
                set_level(draft, gangs, at, need)
