"""The fair share: what a job needs to be as fast as with its GPU-proportional share; and placing jobs with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import WHOLE, Books, Bools, Ints, count_bits
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit
from muster.schedulers.allocation.draft_allocator import AllocationInput, DraftAllocator
from muster.schedulers.allocation.gangs import Gangs, has_room, place_gang, request_above_share, set_level
from muster.schedulers.allocation.node_search import best_fits, fewest_nodes
from muster.schedulers.allocation.placement_draft import (
    PlacementDraft,
    add_part,
    add_rows,
    fits,
    remove_last,
    set_amounts,
)
from muster.schedulers.contract import Snapshot


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
        jobs, profiles = snapshot.jobs, snapshot.resource_profiles
        classes, demands = profiles.of(jobs.model, jobs.gpus, jobs.requested_per_gpu)
        fair: Ints = demands.fair[:, profiles.kinds["gpus"] > 0].min(axis=1)[classes]
        return fair


def by_demand_descending(draft: PlacementDraft, gangs: Gangs, chosen: Bools) -> Ints:
    """Return fixed jobs, then chosen movable ones; each by GPUs, then CPUs, then memory demanded, descending.

    Jobs that are placed later see what fixed jobs leave them. Those that request more than their share come before
    the others.
    """
    served = np.flatnonzero((chosen & draft.movable) | draft.fixed)
    per_gpu = gangs.demands.best.max(axis=1)[gangs.classes[served]]
    gpus = gangs.gpus[served]
    above = request_above_share(gangs, served)
    keys = -gpus * per_gpu[:, 2], -gpus * per_gpu[:, 1], -gpus, ~above, draft.movable[served]
    return served[np.lexsort(keys)]


@njit(cache=True)
def place_by_best_fit(draft: PlacementDraft, gangs: Gangs, at: int, take: Ints) -> bool:
    """Place a job with its demand, else its fair share, else what neighbours hold above theirs; whether it fits."""
    best, fair = gangs.demands.best[gangs.classes[at]], gangs.demands.fair[gangs.classes[at]]
    with_best, with_fair, with_gpus = best_fits(draft, gangs, at, best, fair)
    for node, need in ((with_best, best), (with_fair, fair)):
        if node >= 0:
            set_amounts(draft, add_part(draft, at, node, gangs.gpus[at]), need[gangs.kind_of_node[node]])
            return True
    take[:] = 0
    if with_gpus >= 0:
        take[with_gpus] = gangs.gpus[at]
    else:
        nothing = np.zeros_like(fair)
        room = fewest_nodes(draft, gangs, at, nothing, take)
        if room == 0:
            return False
        for need in (best, fair):
            if fewest_nodes(draft, gangs, at, need, take) == room:
                place_gang(draft, gangs, at, need, take)
                return True
        fewest_nodes(draft, gangs, at, nothing, take)
    for node in range(len(take)):
        if take[node] > 0:
            need_here = fair[gangs.kind_of_node[node]]
            reclaim(draft, gangs, node, take[node], need_here)
            if not fits(draft, node, take[node], need_here):
                return False
    place_gang(draft, gangs, at, fair, take)
    return True


def keep_stopped(
    snapshot: Snapshot, gangs: Gangs, draft: PlacementDraft, ranked: Ints, chosen: Bools
) -> None:
    """Give running jobs that lost their place to no other job their GPUs back, with their fair share, by rank.

    Not while chosen jobs of a share of a GPU wait: those are placed last, and the GPUs may be for them.
    """
    jobs = snapshot.jobs.at(ranked)
    if not ((jobs.gpu_milli < WHOLE) & jobs.waiting & chosen[ranked]).any():
        _keep_stopped(snapshot.ledger.books, snapshot.jobs.index, draft, gangs, ranked)


@njit(cache=True)
def _keep_stopped(books: Books, index: Ints, draft: PlacementDraft, gangs: Gangs, ranked: Ints) -> None:
    for at in ranked:
        head = books.heads[index[at]]
        if head < 0 or not draft.movable[at] or draft.first[at] >= 0:
            continue
        free = True
        row = head
        while row >= 0:
            free = free and draft.free[books.rows[row]["node"], 0] >= count_bits(books.rows[row]["mask"])
            row = books.rows[row]["next"]
        if not free:
            continue
        before = draft.used[0]
        add_rows(draft, at, books, head)
        if not take_fair_share(draft, gangs, at):
            while draft.used[0] > before:
                remove_last(draft)


@njit(cache=True)
def take_fair_share(draft: PlacementDraft, gangs: Gangs, at: int) -> bool:
    """Give a job that has no more than its request its fair share, taken from its neighbours if need be.

    Returns whether it fits.
    """
    fair = gangs.demands.fair[gangs.classes[at]]
    number = draft.first[at]
    while number >= 0:
        node_part = draft.node_parts[number]
        more = fair[gangs.kind_of_node[node_part["node"]]] - node_part["amount"] // node_part["gpus"]
        reclaim(draft, gangs, node_part["node"], node_part["gpus"], more)
        number = node_part["next"]
    fits_now = has_room(draft, gangs, at, fair)
    if fits_now:
        set_level(draft, gangs, at, fair)
    return bool(fits_now)


@njit(cache=True)
def reclaim(draft: PlacementDraft, gangs: Gangs, node: int, gpus: int, need: Ints) -> None:
    """Lower jobs here that hold more than their fair share, most above first, while it is needed."""
    while not fits(draft, node, gpus, need):
        victim, most = -1, 0.0
        number = draft.first_here[node]
        while number >= 0:
            above = _above_fair(draft, gangs, number, gpus, need)
            if above > most:
                victim, most = number, above
            number = draft.node_parts[number]["next_here"]
        if victim < 0:
            return
        at = draft.node_parts[victim]["at"]
        set_level(draft, gangs, at, gangs.demands.fair[gangs.classes[at]])


@njit(cache=True)
def _above_fair(draft: PlacementDraft, gangs: Gangs, number: int, gpus: int, need: Ints) -> float:
    """Return what a node part holds above its fair share of what is short, in GPUs' shares."""
    node_part = draft.node_parts[number]
    kind = gangs.kind_of_node[node_part["node"]]
    fair = gangs.demands.fair[gangs.classes[node_part["at"]], kind]
    above = 0.0
    for resource in range(1, RESOURCE_COUNT):
        if draft.free[node_part["node"], resource] < gpus * need[resource]:
            excess = node_part["amount"][resource] - node_part["gpus"] * fair[resource]
            above += max(excess, 0) / max(gangs.kinds[kind]["share"][resource], 1)
    return above
