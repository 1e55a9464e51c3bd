"""Greedy allocation (Synergy §5.1): the whole best-case demand or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from muster.schedulers.allocation.draft_allocator import AllocationInput, DraftAllocator
from muster.schedulers.allocation.greedy_core import keep_fixed, place_demands
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.parts import setting

GpuChoice = Literal["first-fit", "consolidating"]


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
        keep_fixed(books, index, given.opened, given.gangs)
        consolidating = self.gpu_choice == "consolidating"
        place_demands(given.opened, given.gangs, tried, consolidating, passing=True)
        return given.opened
