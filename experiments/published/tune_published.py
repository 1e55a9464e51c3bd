"""Synergy's tune as its authors' simulator has it, for comparison on the same input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import Books, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput, DraftAllocator
from muster.schedulers.allocation.drafting import set_amounts
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.greedy import GpuChoice
from muster.schedulers.allocation.greedy_core import keep_fixed, place_demands, place_one
from muster.schedulers.allocation.placement_draft import PlacementDraft
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


def _place(
    books: Books, index: Ints, draft: PlacementDraft, gangs: Gangs, tried: Ints, consolidating: bool
) -> None:
    keep_fixed(books, index, draft, gangs)
    while (place := place_demands(draft, gangs, tried, consolidating, passing=False)) < len(tried):
        at = int(tried[place])
        tried = tried[place + 1 :]
        number = gangs.classes[at]
        need = _share_if_above(gangs.demands.published[number], gangs.demands.share[number])
        if not place_one(draft, gangs, at, need, consolidating):
            _reclaim(draft, gangs, at, need)
            place_one(draft, gangs, at, need, consolidating)


def _share_if_above(need: Ints, share: Ints) -> Ints:
    """By kind of machine: the whole share where any part of the need is above it."""
    lowered = need.copy()
    above = (need[:, 1:] > share[:, 1:]).any(axis=1)
    lowered[above, 1:] = share[above, 1:]
    return lowered


def _reclaim(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints) -> None:
    """Cut neighbours to their share on the servers that have the GPUs: one for a gang, else the fullest first."""
    gpus, kind_of_node = int(gangs.gpus[at]), gangs.kind_of_node
    free = np.where(gangs.node_allowed[gangs.constraint[at]], draft.free[:, 0], 0)
    if gpus > 1:
        holding = np.flatnonzero(free >= gpus)
        if len(holding):
            _reclaim_on(draft, gangs, int(holding[0]), gpus, need[kind_of_node[holding[0]]])
            return
    open_to_it = np.flatnonzero(free > 0)
    for node in open_to_it[np.argsort(free[open_to_it], kind="stable")].tolist():
        if gpus == 0:
            return
        part = min(gpus, int(free[node]))
        _reclaim_on(draft, gangs, node, part, need[kind_of_node[node]])
        gpus -= part


def _reclaim_on(draft: PlacementDraft, gangs: Gangs, node: int, gpus: int, need: Ints) -> None:
    """Walk the jobs of a server, fewest servers, most CPUs, most memory a GPU first, until enough is free."""
    short = np.maximum(gpus * need - draft.free[node], 0)[1:]
    if not short.any():
        return
    for number in sorted(_parts_here(draft, node), key=lambda number: _walked_at(draft, number)):
        if not short.any():
            return
        part = draft.node_parts[number]
        share = gangs.demands.share[gangs.classes[part["at"]]]
        above = np.maximum(part["amount"] - part["gpus"] * share[gangs.kind_of_node[node]], 0)[1:]
        short = np.maximum(short - above, 0)
        if above.any():
            for own in _parts_of(draft, int(part["at"])):
                _cut(draft, own, share[gangs.kind_of_node[draft.node_parts[own]["node"]]])


def _parts_here(draft: PlacementDraft, node: int) -> list[int]:
    """The node parts of a server, in the order in which they came."""
    parts, number = [], int(draft.first_here[node])
    while number >= 0:
        parts.append(number)
        number = int(draft.node_parts[number]["next_here"])
    return parts


def _parts_of(draft: PlacementDraft, at: int) -> list[int]:
    """The node parts of a job."""
    parts, number = [], int(draft.first[at])
    while number >= 0:
        parts.append(number)
        number = int(draft.node_parts[number]["next"])
    return parts


def _cut(draft: PlacementDraft, number: int, share: Ints) -> None:
    """Lower what a node part has above its share; no job is raised at a neighbour's cost."""
    part = draft.node_parts[number]
    set_amounts(draft, number, np.minimum(share, part["amount"] // part["gpus"]))


def _walked_at(draft: PlacementDraft, number: int) -> tuple[int, int, int]:
    """Where a node part is in the published order: servers of its job, then CPUs and memory a GPU, descending."""
    part = draft.node_parts[number]
    _, cpus, memory, *_ = (part["amount"] // part["gpus"]).tolist()
    return len(_parts_of(draft, int(part["at"]))), -cpus, -memory
