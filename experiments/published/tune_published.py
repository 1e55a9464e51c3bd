"""Synergy's tune as its authors' simulator has it, for comparison on the same input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import Books, Bools, Ints, Rows
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit
from muster.schedulers.allocation.draft_allocator import AllocationInput, DraftAllocator
from muster.schedulers.allocation.gangs import Gangs, place_gang
from muster.schedulers.allocation.greedy import keep_fixed
from muster.schedulers.allocation.node_search import GpuChoice, pick
from muster.schedulers.allocation.placement_draft import PlacementDraft, set_amounts
from muster.schedulers.parts import setting


@dataclass(frozen=True)
class TunePublished(DraftAllocator):
    """Tune as published: placed again in policy order, all of the demand or the share, neighbours cut to theirs."""

    name: ClassVar[str] = "tune-published"
    by_order: ClassVar[bool] = True

    gpu_choice: GpuChoice = setting("first-fit", "how servers are chosen: first-fit or consolidating")
    listed: bool = setting(
        False,
        "only jobs whose GPUs fit by the walk in order are tried, most GPUs first, as the published LAS",
    )

    def choose_draft(self, given: AllocationInput) -> PlacementDraft:
        """Demand, else share, else take from neighbours; running jobs that may not move get what is free beside."""
        tried = given.ranked
        if self.listed:
            tried = tried[given.chosen[tried]]
            tried = tried[np.argsort(-given.gangs.gpus[tried], kind="stable")]
        books, index = given.snapshot.ledger.books, given.snapshot.jobs.index
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
        placed = pick(draft, gangs, at, need, consolidating, take)
        if not placed:
            need = _share_if_above(need, gangs.demands.share[gangs.classes[at]])
            placed = pick(draft, gangs, at, need, consolidating, take)
        if not placed:
            _reclaim(draft, gangs, at, need)
            placed = pick(draft, gangs, at, need, consolidating, take)
        if placed:
            budget -= gangs.gpus[at]
            place_gang(draft, gangs, at, need, take)


@njit(cache=True)
def _share_if_above(need: Ints, share: Ints) -> Ints:
    """By kind of machine: the whole share where any part of the need is above it."""
    lowered = need.copy()
    for kind in range(len(need)):
        above = False
        for resource in range(1, RESOURCE_COUNT):
            above = above or need[kind, resource] > share[kind, resource]
        if above:
            for resource in range(1, RESOURCE_COUNT):
                lowered[kind, resource] = share[kind, resource]
    return lowered


@njit(cache=True)
def _reclaim(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints) -> None:
    """Cut neighbours to their share on the servers that have the GPUs: one for a gang, else the fullest first."""
    gpus, kind_of_node = gangs.gpus[at], gangs.kind_of_node
    allowed = gangs.node_allowed[gangs.constraint[at]]
    nodes = len(kind_of_node)
    if gpus > 1:
        for node in range(nodes):
            if allowed[node] and draft.free[node, 0] >= gpus:
                _reclaim_on(draft, gangs, node, gpus, need[kind_of_node[node]])
                return
    used = np.zeros(nodes, np.bool_)
    while gpus > 0:
        best = -1
        for node in range(nodes):
            open_to_it = allowed[node] and not used[node] and draft.free[node, 0] > 0
            if open_to_it and (best < 0 or draft.free[node, 0] < draft.free[best, 0]):
                best = node
        if best < 0:
            return
        used[best] = True
        part = min(gpus, draft.free[best, 0])
        _reclaim_on(draft, gangs, best, part, need[kind_of_node[best]])
        gpus -= part


@njit(cache=True)
def _reclaim_on(draft: PlacementDraft, gangs: Gangs, node: int, gpus: int, need: Ints) -> None:
    """Walk the jobs of a server, fewest servers, most CPUs, most memory a GPU first, until enough is free."""
    short = np.zeros(RESOURCE_COUNT, np.int64)
    for resource in range(1, RESOURCE_COUNT):
        short[resource] = max(0, gpus * need[resource] - draft.free[node, resource])
    kind_here = gangs.kind_of_node[node]
    walked = np.zeros(draft.used[0], np.bool_)
    while short.max() > 0:
        victim = _next_victim(draft, node, walked)
        if victim < 0:
            return
        walked[victim] = True
        node_part = draft.node_parts[victim]
        share = gangs.demands.share[gangs.classes[node_part["at"]]]
        excess = False
        for resource in range(1, RESOURCE_COUNT):
            above = node_part["amount"][resource] - node_part["gpus"] * share[kind_here, resource]
            excess = excess or above > 0
            short[resource] = max(0, short[resource] - max(0, above))
        if excess:
            number = draft.first[node_part["at"]]
            while number >= 0:
                kind = gangs.kind_of_node[draft.node_parts[number]["node"]]
                _cut(draft, number, share[kind])
                number = draft.node_parts[number]["next"]


@njit(cache=True)
def _cut(draft: PlacementDraft, number: int, share: Ints) -> None:
    """Lower what a node part has above its share; no job is raised at a neighbour's cost."""
    node_part = draft.node_parts[number]
    lowered = share.copy()
    for resource in range(1, RESOURCE_COUNT):
        lowered[resource] = min(share[resource], node_part["amount"][resource] // node_part["gpus"])
    set_amounts(draft, number, lowered)


@njit(cache=True)
def _next_victim(draft: PlacementDraft, node: int, walked: Bools) -> int:
    """The first node part of a server, in the published order, that has not been walked; -1: none."""
    best = -1
    best_servers = 0
    number = draft.first_here[node]
    while number >= 0:
        node_part = draft.node_parts[number]
        if not walked[number]:
            servers = 0
            other = draft.first[node_part["at"]]
            while other >= 0:
                servers += 1
                other = draft.node_parts[other]["next"]
            if best < 0 or _sooner(node_part, servers, draft.node_parts[best], best_servers):
                best, best_servers = number, servers
        number = node_part["next_here"]
    return best


@njit(cache=True)
def _sooner(one: Rows, servers: int, other: Rows, other_servers: int) -> bool:
    if servers != other_servers:
        return servers < other_servers
    for resource in range(1, 3):
        mine, theirs = one["amount"][resource] // one["gpus"], other["amount"][resource] // other["gpus"]
        if mine != theirs:
            return bool(mine > theirs)
    return False
