"""tune-plus: the guarantee of tune, hungry jobs dealt over the machines, and all of each machine given out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.books import Books, Bools, Floats, Ints
from muster.cluster.ledger import Draft
from muster.compiling import njit
from muster.schedulers.allocation.dealing import deal_all, targets
from muster.schedulers.allocation.furnishing import furnish_all, gang_speed, raise_gang
from muster.schedulers.allocation.gangs import Gangs, gangs_of
from muster.schedulers.allocation.newcomers import place_newcomers
from muster.schedulers.allocation.pooled import points_of_jobs, pool_of, pooled_that_fit
from muster.schedulers.allocation.seats import (
    Seats,
    empty_copy,
    keep_amounts,
    open_seats,
    sit_at_home,
    stays_put,
    write_seats,
)
from muster.schedulers.allocation.swapping import swap_jobs
from muster.schedulers.allocation.tune import hungriest_first, tune
from muster.schedulers.contract import View
from muster.schedulers.parts import Allotment, setting

_SWAPS_TRIED = 60
_SHORT_AT_MOST = 0.03
"""Part of the best by which the priced points may be short."""


@dataclass(frozen=True)
class TunePlus(Allotment):
    """Never slower in all than tune: hungry jobs spread over machines, each machine given to those that gain most."""

    name: ClassVar[str] = "tune-plus"
    rests: ClassVar[bool] = False
    furnishes: ClassVar[bool] = True

    move_seconds: float = setting(0.0, "what a move costs a job; it moves only where that is repaid")
    horizon_seconds: float = setting(3600.0, "the time within which a move must have repaid itself")

    def allot(
        self, view: View, draft: Draft, ranked: Ints, chosen: Bools, codes: Ints, a: Floats, b: Floats
    ) -> None:
        """The best of three plans: nobody moves, tune's, everybody dealt anew."""
        gangs, seats = gangs_of(view), open_seats(view, draft, ranked, chosen)
        best = self.best_plan(view, gangs, seats, ranked, chosen)
        write_seats(view, draft, best, ranked, chosen, codes, a, b)

    def best_plan(self, view: View, gangs: Gangs, opened: Seats, ranked: Ints, chosen: Bools) -> Seats:
        """The plan that is worth most: the speed of all, less what its moves cost; of equals the one that stays."""
        served = hungriest_first(opened, gangs, chosen)
        wanted, of_kind = _wanted(gangs, opened, served)
        books, index = view.ledger.books, view.jobs.index
        stays, tuned, dealt = (empty_copy(opened) for _ in range(3))
        sit_at_home(books, index, stays, chosen)
        keep_amounts(books, index, tuned)
        tune(tuned, gangs, served, ranked)
        keep_amounts(books, index, stays)
        place_newcomers(stays, gangs, served, ranked)
        deal_all(dealt, gangs, of_kind, served, ranked, wanted)
        furnish_all(dealt, gangs)
        swap_jobs(dealt, gangs, served, wanted, of_kind, _SWAPS_TRIED)
        cost = self.move_seconds / self.horizon_seconds
        worth = [worth_of(books, index, gangs, plan, cost) for plan in (stays, dealt)]
        best = (stays, dealt)[int(np.argmax(np.round(worth, 9)))]
        if worth_of(books, index, gangs, tuned, cost) <= max(worth):
            return best
        furnish_all(tuned, gangs)
        worth_of(books, index, gangs, tuned, cost)
        return tuned


def _wanted(gangs: Gangs, opened: Seats, served: Ints) -> tuple[Ints, Ints]:
    """What each served job would have on one pooled machine, and on which kind of machine where they differ.

    Prices tell it fast; where machines differ or prices leave too much open, the linear program does.
    """
    if len(gangs.kinds) == 1:
        wanted, may_be_short = targets(opened, gangs, served, 0)
        if may_be_short <= _SHORT_AT_MOST:
            return wanted, np.zeros(len(served), np.int64)
    return points_of_jobs(gangs, served, pooled_that_fit(gangs, served, pool_of(opened, gangs)))


@njit(cache=True)
def worth_of(books: Books, index: Ints, gangs: Gangs, plan: Seats, move_cost: float) -> float:
    """Give what is left to gangs on several machines; what the plan is worth."""
    worth = 0.0
    for at in range(len(index)):
        if plan.first[at] >= 0:
            raise_gang(plan, gangs, at)
            head = books.heads[index[at]]
            moves = head >= 0 and not stays_put(books, head, plan, plan.first[at])
            worth += gangs.gpus[at] * gang_speed(plan, gangs, at) * (1 - move_cost * moves)
    return worth
