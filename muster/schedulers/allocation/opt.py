"""Synergy's opt (§4.1): the pooled optimum as bound and guide, then an honest placement of whole GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan
from typing import ClassVar

import numpy as np

from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.exact import PlacementEffort, exact_plan
from muster.schedulers.allocation.fair_share import FairShareAllocator, by_demand_descending
from muster.schedulers.allocation.node_assignment import assign_nodes
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.pooled import points_of_jobs, pool_of, pooled_that_fit
from muster.schedulers.allocation.resource_fill import fill_all
from muster.schedulers.allocation.tune_plus import TunePlus
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.honours import CPUS_AND_MEMORY
from muster.schedulers.parts import check_seconds, setting

_REACHED = 1e-9
"""A plan so close to the bound of jobs of one GPU leaves nothing to look for; gangs that spread may pass it."""
NO_SOLUTION = (
    "opt: stage 1 had no solution, because the chosen jobs need more than is free now; "
    "tune-plus stood in for it"
)
CUT_SHORT = (
    "opt: the exact placement ran out of nodes or seconds; the best plan found by then counts, never less than "
    "tune-plus (--set nodes=... allows more)"
)


@dataclass(frozen=True)
class Opt(FairShareAllocator):
    """The most speed in all: the points of the pooled linear program assigned to nodes, exact where small (Synergy)."""

    name: ClassVar[str] = "opt"
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY

    exact_variables: int = setting(3000, "columns at most of the program that solves the placement exactly")
    nodes: int = setting(2000, "branch-and-bound nodes at most for an exact placement")
    solver_seconds: float = setting(
        inf, "live only: an exact placement ends after so long with the best plan so far"
    )

    def __post_init__(self) -> None:
        if self.exact_variables < 0 or self.nodes < 0:
            raise ValueError("exact_variables and nodes are whole numbers from 0 on")
        check_seconds(self, "solver_seconds")

    def best_draft(self, given: AllocationInput) -> PlacementDraft:
        """Return the best of tune-plus, the pooled points on nodes, and the exact placement of a small cluster."""
        gangs, opened = given.gangs, given.opened
        served = by_demand_descending(opened, gangs, given.chosen)
        worth_of = Worth(given.snapshot, gangs).of
        drafts = [TunePlus().best_draft(given)]
        worths = [worth_of(drafts[0])]
        if len(served):
            stage1 = pooled_that_fit(gangs, served, pool_of(opened, gangs))
            if isnan(stage1.bound):
                given.notes.append(NO_SOLUTION)
            wanted, of_kind = points_of_jobs(gangs, served, stage1)
            assigned = opened.copy()
            assign_nodes(assigned, gangs, of_kind, served, given.ranked, wanted)
            fill_all(assigned, gangs)
            drafts.append(assigned)
            worths.append(worth_of(assigned))
            may_spread = bool((gangs.gpus[served] > 1).any())
            if may_spread or not max(worths) >= stage1.bound * (1 - _REACHED):
                effort = PlacementEffort(self.exact_variables, self.nodes, self.solver_seconds)
                exact = exact_plan(gangs, opened, served, effort)
                if exact.cut_short:
                    given.notes.append(CUT_SHORT)
                if exact.plan is not None:
                    fill_all(exact.plan, gangs)
                    drafts.append(exact.plan)
                    worths.append(worth_of(exact.plan))
        return drafts[int(np.argmax(np.round(worths, 9)))]
