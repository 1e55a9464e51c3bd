"""Synergy's tune (§4.2): best-case demands packed by best fit, lowered to the fair share where they clash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from muster.cluster.ledger_arrays import NONE
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.drafting import keep_amounts, keep_in_place
from muster.schedulers.allocation.fair_share import FairShareAllocator, by_demand_descending
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.tune_core import tune
from muster.schedulers.allocation.worth import Worth


@dataclass(frozen=True)
class Tune(FairShareAllocator):
    """Best-case demand where it fits, else the fair share, neighbours lowered to theirs; never below fair (Synergy)."""

    name: ClassVar[str] = "tune"
    resizes_alone: ClassVar[bool] = True

    def best_draft(self, given: AllocationInput) -> PlacementDraft:
        """Place all jobs again where that repays the moves; else running jobs keep their GPUs."""
        snapshot, opened = given.snapshot, given.opened
        draft = _tuned(given, opened)
        moving = snapshot.jobs.running & opened.movable
        if snapshot.jobs.interruption_cost[moving].any():
            stays = _tuned(given, _fix_running(given))
            worth = Worth(snapshot, given.gangs)
            if worth.of(stays) >= worth.of(draft):
                return stays
        return draft


def _tuned(given: AllocationInput, opened: PlacementDraft) -> PlacementDraft:
    draft = opened.copy()
    keep_amounts(given.snapshot.ledger.books, given.snapshot.jobs.index, draft)
    tune(draft, given.gangs, by_demand_descending(draft, given.gangs, given.chosen), given.ranked)
    return draft


def _fix_running(given: AllocationInput) -> PlacementDraft:
    """Return the draft with the chosen jobs that run fixed where they run."""
    draft = given.opened.copy()
    keep_in_place(given.snapshot.ledger.books, given.snapshot.jobs.index, draft, given.chosen)
    in_place = (draft.first != NONE) & draft.movable
    draft.movable[in_place], draft.fixed[in_place] = False, True
    return draft
