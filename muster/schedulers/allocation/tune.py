"""Synergy's tune (§4.2): best-case demands packed by best fit, lowered to the fair share where they clash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import NONE, Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.fair_share import (
    FairShareAllocator,
    by_demand_descending,
    place_by_best_fit,
    take_fair_share,
)
from muster.schedulers.allocation.gangs import Gangs, has_room, set_level
from muster.schedulers.allocation.placement_draft import (
    PlacementDraft,
    keep_amounts,
    keep_in_place,
    set_amounts,
)
from muster.schedulers.allocation.resource_fill import fill_all, gang_speed, raise_gang
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


@njit(cache=True)
def tune(draft: PlacementDraft, gangs: Gangs, served: Ints, ranked: Ints) -> None:
    """Steps 2 to 5 for the served; those of them without a place leave their GPUs to others, by rank.

    Fixed jobs begin with what they hold (`keep_amounts`). With any of them, each node is given in the end to those of
    its jobs that gain most: jobs that met by chance and cannot part need not starve each other.
    """
    take = np.zeros(len(gangs.kind_of_node), np.int64)
    some_fixed = False
    for at in served:
        if draft.fixed[at]:
            some_fixed = True
            _lower_to_fair(draft, gangs, at)
    left = 0
    for at in served:
        if draft.fixed[at]:
            _raise_fixed(draft, gangs, at)
        elif not place_by_best_fit(draft, gangs, at, take):
            left += gangs.gpus[at]
    for at in ranked:
        if draft.movable[at] and draft.first[at] < 0 and gangs.gpus[at] <= left:
            left -= gangs.gpus[at] * place_by_best_fit(draft, gangs, at, take)
    if some_fixed:
        fill_all(draft, gangs)
        for at in served:
            raise_gang(draft, gangs, at)


@njit(cache=True)
def _lower_to_fair(draft: PlacementDraft, gangs: Gangs, at: int) -> None:
    """Take what a job holds beyond its fair share and has no use for."""
    fair = gangs.demands.fair[gangs.classes[at]]
    if not _is_above_fair(draft, gangs, at) and has_room(draft, gangs, at, fair):
        set_level(draft, gangs, at, fair)


@njit(cache=True)
def _raise_fixed(draft: PlacementDraft, gangs: Gangs, at: int) -> None:
    """Give a job that keeps its GPUs its demand where it fits, else what it holds, and the fair share at least.

    The fair share is taken back from neighbours if need be.
    """
    best, requested = gangs.demands.best[gangs.classes[at]], gangs.demands.requested[gangs.classes[at]]
    if has_room(draft, gangs, at, best):
        set_level(draft, gangs, at, best)
    elif not _is_above_fair(draft, gangs, at):
        kept = np.zeros((len(draft.free), RESOURCE_COUNT), np.int64)
        number = draft.first[at]
        while number >= 0:
            node_part = draft.node_parts[number]
            kept[node_part["node"]] = node_part["amount"] // node_part["gpus"]
            set_amounts(draft, number, requested)
            number = node_part["next"]
        if not take_fair_share(draft, gangs, at):
            number = draft.first[at]
            while number >= 0:
                set_amounts(draft, number, kept[draft.node_parts[number]["node"]])
                number = draft.node_parts[number]["next"]


@njit(cache=True)
def _is_above_fair(draft: PlacementDraft, gangs: Gangs, at: int) -> bool:
    """Return whether a job is faster on what it has than with its fair share."""
    fair_speed, number = np.inf, draft.first[at]
    while number >= 0:
        kind = gangs.kind_of_node[draft.node_parts[number]["node"]]
        fair_speed = min(fair_speed, gangs.demands.fair_speed[gangs.classes[at], kind])
        number = draft.node_parts[number]["next"]
    return bool(gang_speed(draft, gangs, at) > fair_speed * (1 + 1e-9))
