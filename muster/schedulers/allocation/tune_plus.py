"""tune-plus: the guarantee of tune, hungry jobs dealt over the machines, and all of each machine given out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger import Transaction
from muster.cluster.ledger_arrays import NONE, Bools, Floats, Ints
from muster.schedulers.allocation.gangs import Gangs, fair_per_gpu, gangs_of
from muster.schedulers.allocation.newcomers import place_newcomers
from muster.schedulers.allocation.node_assignment import assign_nodes, targets
from muster.schedulers.allocation.placement_draft import (
    PlacementDraft,
    empty_copy,
    keep_amounts,
    keep_in_place,
    open_draft,
    write_draft,
)
from muster.schedulers.allocation.pooled import points_of_jobs, pool_of, pooled_that_fit
from muster.schedulers.allocation.resource_fill import furnish_all
from muster.schedulers.allocation.swapping import swap_jobs
from muster.schedulers.allocation.tune import by_demand_descending, keep_stopped, place_by_best_fit, tune
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.contract import Snapshot
from muster.schedulers.honours import CPUS_AND_MEMORY
from muster.schedulers.parts import GangAllocator

_SWAPS_TRIED = 60
_SHORT_AT_MOST = 0.03
"""Part of the best by which the priced points may be short."""
_REACHED = 1e-9
"""A plan so close to the best speed of every job leaves nothing to look for: worths are compared to this."""


@dataclass(frozen=True)
class TunePlus(GangAllocator):
    """Never slower in all than tune: hungry jobs spread over machines, each machine given to those that gain most."""

    name: ClassVar[str] = "tune-plus"
    stable_when_queue_empty: ClassVar[bool] = False
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY
    furnishes: ClassVar[bool] = True

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
        """The best of some plans: running jobs stay, tune's, all jobs placed again."""
        gangs, draft = gangs_of(snapshot), open_draft(snapshot, transaction, ranked, chosen)
        best = self.best_plan(snapshot, gangs, draft, ranked, chosen)
        keep_stopped(snapshot, gangs, best, ranked, chosen)
        write_draft(snapshot, transaction, best, ranked, chosen, codes, a, b)

    def least_per_gpu(self, snapshot: Snapshot) -> Ints:
        """The fair demand."""
        return fair_per_gpu(snapshot)

    def best_plan(
        self, snapshot: Snapshot, gangs: Gangs, opened: PlacementDraft, ranked: Ints, chosen: Bools
    ) -> PlacementDraft:
        """The plan that is worth most: the speed of all, less what its restarts cost; of equals the one that stays."""
        worth = Worth(snapshot, gangs)
        served = by_demand_descending(opened, gangs, chosen)
        books, index = snapshot.ledger.books, snapshot.jobs.index
        stays, tuned, dealt = (empty_copy(opened) for _ in range(3))
        keep_in_place(books, index, stays, chosen)
        keep_amounts(books, index, stays)
        plans = [_as_they_are(gangs, stays, served)] if snapshot.resize_restarts else []
        place_newcomers(stays, gangs, served, ranked)
        plans.append(stays)
        worths = [worth.of(plan) for plan in plans]
        if worths[0] >= worth.at_most(served) - _REACHED:
            return plans[0]
        wanted, of_kind = _wanted(gangs, opened, served)
        assign_nodes(dealt, gangs, of_kind, served, ranked, wanted)
        furnish_all(dealt, gangs)
        swap_jobs(dealt, gangs, served, wanted, of_kind, _SWAPS_TRIED)
        plans.append(dealt)
        worths.append(worth.of(dealt))
        keep_amounts(books, index, tuned)
        tune(tuned, gangs, served, ranked)
        if worth.of(tuned) <= max(worths):
            return plans[int(np.argmax(np.round(worths, 9)))]
        if not snapshot.resize_restarts:
            furnish_all(tuned, gangs)
            worth.of(tuned)
        return tuned


def _as_they_are(gangs: Gangs, at_home: PlacementDraft, served: Ints) -> PlacementDraft:
    """Return the plan in which running jobs keep what they hold unless a newcomer needs it."""
    plan = empty_copy(at_home)
    take = np.zeros(len(gangs.kind_of_node), np.int64)
    for at in served.tolist():
        if plan.first[at] == NONE:
            place_by_best_fit(plan, gangs, at, take)
    return plan


def _wanted(gangs: Gangs, opened: PlacementDraft, served: Ints) -> tuple[Ints, Ints]:
    """What each served job would have on one pooled machine, and on which kind of machine where they differ.

    Prices tell it fast; where machines differ or prices leave too much open, the linear program does.
    """
    if len(gangs.kinds) == 1:
        wanted, may_be_short = targets(opened, gangs, served, 0)
        if may_be_short <= _SHORT_AT_MOST:
            return wanted, np.zeros(len(served), np.int64)
    return points_of_jobs(gangs, served, pooled_that_fit(gangs, served, pool_of(opened, gangs)))
