"""tune-plus: the guarantee of tune, demanding jobs spread over the nodes, and all of each node given out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.drafting import keep_amounts
from muster.schedulers.allocation.fair_share import FairShareAllocator, by_demand_descending
from muster.schedulers.allocation.fair_share_core import place_missing
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.newcomers import place_newcomers
from muster.schedulers.allocation.node_assignment import assign_nodes
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.pooled import points_of_jobs, pool_of, pooled_that_fit
from muster.schedulers.allocation.pooled_prices import targets
from muster.schedulers.allocation.resource_fill import fill_all
from muster.schedulers.allocation.swapping import swap_jobs
from muster.schedulers.allocation.tune_core import tune
from muster.schedulers.allocation.worth import REACHED, Worth

_SWAPS_TRIED = 60
_SHORT_AT_MOST = 0.03
"""Part of the best by which the priced points may be short."""


@dataclass(frozen=True)
class TunePlus(FairShareAllocator):
    """Never slower in all than tune: demanding jobs spread over nodes, each node given to those that gain most."""

    name: ClassVar[str] = "tune-plus"
    resizes_alone: ClassVar[bool] = True

    def best_draft(self, given: AllocationInput) -> PlacementDraft:
        """Return the draft that is worth most: running jobs stay, tune's, all jobs placed again.

        Its worth is the speed of all jobs, less what its restarts cost; of equals the first.
        """
        snapshot, gangs, opened, ranked = given.snapshot, given.gangs, given.opened, given.ranked
        worth = Worth(snapshot, gangs)
        served = by_demand_descending(opened, gangs, given.chosen)
        books, index = snapshot.ledger.books, snapshot.jobs.index
        stays = given.keeping(given.chosen)
        drafts = [_as_they_are(gangs, stays, served)] if snapshot.resize_restarts else []
        place_newcomers(stays, gangs, served, ranked)
        drafts.append(stays)
        worths = [worth.of(draft) for draft in drafts]
        if worths[0] >= worth.at_most(served, given.opened.gpus) - REACHED:
            return drafts[0]
        wanted, of_kind = _wanted(gangs, opened, served)
        spread = opened.copy()
        assign_nodes(spread, gangs, of_kind, served, ranked, wanted)
        fill_all(spread, gangs)
        swap_jobs(spread, gangs, served, wanted, of_kind, _SWAPS_TRIED)
        drafts.append(spread)
        worths.append(worth.of(spread))
        tuned = opened.copy()
        keep_amounts(books, index, tuned)
        tune(tuned, gangs, served, ranked)
        if worth.of(tuned) <= max(worths):
            return drafts[int(np.argmax(np.round(worths, 9)))]
        if not snapshot.resize_restarts:
            fill_all(tuned, gangs)
            worth.of(tuned)
        return tuned


def _as_they_are(gangs: Gangs, in_place: PlacementDraft, served: Ints) -> PlacementDraft:
    """Return the plan in which running jobs keep what they hold unless a newcomer needs it."""
    plan = in_place.copy()
    place_missing(plan, gangs, served)
    return plan


def _wanted(gangs: Gangs, opened: PlacementDraft, served: Ints) -> tuple[Ints, Ints]:
    """Return what each served job would have on one pooled machine, and on which kind of node where they differ.

    Prices answer fast; where nodes differ or prices leave too much open, the linear program does.
    """
    if len(gangs.kinds) == 1:
        wanted, may_be_short = targets(opened, gangs, served, 0)
        if may_be_short <= _SHORT_AT_MOST:
            return wanted, np.zeros(len(served), np.int64)
    return points_of_jobs(gangs, served, pooled_that_fit(gangs, served, pool_of(opened, gangs)))
