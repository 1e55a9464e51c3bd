"""Greedy allocation (Synergy §5.1): the whole best-case demand or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger import Transaction
from muster.cluster.ledger_arrays import Books, Bools, Floats, Ints
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs, gangs_of, place_gang
from muster.schedulers.allocation.pickers import GpuChoice, pick
from muster.schedulers.allocation.placement_draft import (
    MOVABLE,
    SETTLED,
    PlacementDraft,
    keep_amounts,
    open_draft,
    write_draft,
)
from muster.schedulers.allocation.tune import set_level
from muster.schedulers.contract import Snapshot
from muster.schedulers.honours import CPUS_AND_MEMORY
from muster.schedulers.parts import GangAllocator, setting


@dataclass(frozen=True)
class Greedy(GangAllocator):
    """The whole best-case demand by first fit, everybody anew; whose demand fits nowhere is passed (Synergy)."""

    name: ClassVar[str] = "greedy"
    stable_when_queue_empty: ClassVar[bool] = False
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY
    by_order: ClassVar[bool] = True

    gpu_choice: GpuChoice = setting("first-fit", "how servers are chosen: first-fit or consolidating")
    listed: bool = setting(
        False, "only jobs whose GPUs fit by the walk in order are tried, as under the published LAS"
    )

    def allocate(
        self,
        snapshot: Snapshot,
        transaction: Transaction,
        ranked: Ints,
        chosen: Bools,
        codes: Ints,
        a: Floats,
        b: Floats,
    ) -> None:
        """First fit in order; running jobs that may not move keep what they have."""
        gangs, draft = gangs_of(snapshot), open_draft(snapshot, transaction, ranked, chosen)
        tried = ranked[chosen[ranked]] if self.listed else ranked
        _place(
            snapshot.ledger.books,
            snapshot.jobs.index,
            draft,
            gangs,
            tried,
            self.gpu_choice == "consolidating",
        )
        write_draft(snapshot, transaction, draft, ranked, chosen, codes, a, b)


@njit(cache=True)
def _place(
    books: Books, index: Ints, draft: PlacementDraft, gangs: Gangs, tried: Ints, consolidating: bool
) -> None:
    keep_settled(books, index, draft, gangs)
    take = np.zeros(len(gangs.kind_of_node), np.int64)
    budget = draft.free[:, 0].sum()
    for at in tried:
        if budget == 0:
            break
        if draft.condition[at] != MOVABLE or gangs.gpus[at] > budget:
            continue
        need = gangs.demands.published[gangs.classes[at]]
        if pick(draft, gangs, at, need, consolidating, take):
            budget -= gangs.gpus[at]
            place_gang(draft, gangs, at, need, take)


@njit(cache=True)
def keep_settled(books: Books, index: Ints, draft: PlacementDraft, gangs: Gangs) -> None:
    """Settled jobs keep what they have; those with less than their demand get all of it where it is free."""
    keep_amounts(books, index, draft)
    for at in range(len(index)):
        if draft.condition[at] != SETTLED:
            continue
        need = gangs.demands.published[gangs.classes[at]]
        short = 0
        number = draft.first[at]
        while number >= 0:
            node_part = draft.node_parts[number]
            node = node_part["node"]
            for resource in range(1, 4):
                more = (
                    node_part["gpus"] * need[gangs.kind_of_node[node], resource]
                    - node_part["amount"][resource]
                )
                short += more > draft.free[node, resource]
            number = node_part["next"]
        if not short:
            set_level(draft, gangs, at, need)
