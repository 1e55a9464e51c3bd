"""Synergy's opt (§4.1): the pooled optimum as bound and guide, then an honest placement of whole GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.books import Bools, Floats, Ints
from muster.cluster.ledger import Draft
from muster.schedulers.allocation.dealing import deal_all
from muster.schedulers.allocation.exact import exact_plan
from muster.schedulers.allocation.furnishing import furnish_all
from muster.schedulers.allocation.gangs import Gangs, gangs_of
from muster.schedulers.allocation.pooled import points_of_jobs, pool_of
from muster.schedulers.allocation.seats import Seats, empty_copy, open_seats, write_seats
from muster.schedulers.allocation.tune import hungriest_first
from muster.schedulers.allocation.tune_plus import TunePlus, worth_of
from muster.schedulers.contract import View
from muster.schedulers.parts import Allotment, setting


@dataclass(frozen=True)
class Opt(Allotment):
    """The most speed in all: the pooled linear program's points dealt over machines, exact where small (Synergy)."""

    name: ClassVar[str] = "opt"
    rests: ClassVar[bool] = False

    exact_variables: int = setting(
        3000, "up to so many whole-number variables the placement is solved exactly, not dealt"
    )
    nodes: int = setting(2000, "branch-and-bound nodes at most for an exact placement")

    def allot(
        self, view: View, draft: Draft, ranked: Ints, chosen: Bools, codes: Ints, a: Floats, b: Floats
    ) -> None:
        """The best of tune-plus, the pooled points dealt, and the exact placement of a small cluster."""
        gangs, opened = gangs_of(view), open_seats(view, ranked)
        served = hungriest_first(opened, gangs, chosen)
        plans: list[Seats | None] = [TunePlus().best_plan(view, gangs, opened, ranked, chosen)]
        if len(served):
            plans.append(_dealt(gangs, opened, served, ranked))
            plans.append(exact_plan(gangs, opened, served, self.exact_variables, self.nodes))
        books, index = view.ledger.books, view.jobs.index
        found = [plan for plan in plans if plan is not None]
        for plan in found:
            furnish_all(plan, gangs)
        worth = [worth_of(books, index, gangs, plan, 0.0) for plan in found]
        best = found[int(np.argmax(np.round(worth, 9)))]
        write_seats(view, draft, best, ranked, chosen, codes, a, b)


def _dealt(gangs: Gangs, opened: Seats, served: Ints, ranked: Ints) -> Seats:
    """The points of stage 1 dealt over the machines."""
    wanted, of_kind = points_of_jobs(gangs, served, pool_of(opened, gangs))
    plan = empty_copy(opened)
    deal_all(plan, gangs, of_kind, served, ranked, wanted)
    return plan
