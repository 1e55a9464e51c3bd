"""Synergy's opt (§4.1): the pooled optimum as bound and guide, then an honest placement of whole GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan
from typing import ClassVar

import numpy as np

from muster.cluster.ledger import Transaction
from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.allocation.exact import Effort, exact_plan
from muster.schedulers.allocation.gangs import Gangs, fair_per_gpu, gangs_of
from muster.schedulers.allocation.node_assignment import assign_nodes
from muster.schedulers.allocation.placement_draft import PlacementDraft, empty_copy, open_draft, write_draft
from muster.schedulers.allocation.pooled import Pooled, points_of_jobs, pool_of, pooled_that_fit
from muster.schedulers.allocation.resource_fill import furnish_all
from muster.schedulers.allocation.tune import by_demand_descending, keep_stopped
from muster.schedulers.allocation.tune_plus import TunePlus
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.contract import Snapshot
from muster.schedulers.honours import CPUS_AND_MEMORY
from muster.schedulers.parts import GangAllocator, check_seconds, setting

_REACHED = 1e-9
"""A plan so close to the bound leaves nothing to look for."""
NO_SOLUTION = (
    "opt: stage 1 had no solution, because the chosen jobs need more than is free now; "
    "tune-plus stood in for it"
)
CUT_SHORT = (
    "opt: the exact placement ran out of nodes or seconds; the best plan found by then counts, never less than "
    "tune-plus (--set nodes=... allows more)"
)


@dataclass(frozen=True)
class Opt(GangAllocator):
    """The most speed in all: the pooled linear program's points dealt over machines, exact where small (Synergy)."""

    name: ClassVar[str] = "opt"
    stable_when_queue_empty: ClassVar[bool] = False
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY

    exact_variables: int = setting(
        3000, "up to so many whole-number variables the placement is solved exactly, not dealt"
    )
    nodes: int = setting(2000, "branch-and-bound nodes at most for an exact placement")
    solver_seconds: float = setting(
        inf, "live only: an exact placement ends after so long with the best plan so far"
    )

    def __post_init__(self) -> None:
        if self.exact_variables < 0 or self.nodes < 0:
            raise ValueError("exact_variables and nodes are whole numbers from 0 on")
        check_seconds(self, "solver_seconds")

    def allocate(
        self,
        snapshot: Snapshot,
        transaction: Transaction,
        ranked: Ints,
        chosen: Bools,
        codes: Ints,
        a: Floats,
        b: Floats,
    ) -> tuple[str, ...]:
        """The best of tune-plus, the pooled points dealt, and the exact placement of a small cluster."""
        gangs, opened = gangs_of(snapshot), open_draft(snapshot, transaction, ranked, chosen)
        served = by_demand_descending(opened, gangs, chosen)
        plans = [TunePlus().best_plan(snapshot, gangs, opened, ranked, chosen)]
        worth_of = Worth(snapshot, gangs).of
        worth = [worth_of(plans[0])]
        notes = []
        if len(served):
            stage1 = pooled_that_fit(gangs, served, pool_of(opened, gangs))
            if isnan(stage1.bound):
                notes.append(NO_SOLUTION)
            plans.append(_dealt(gangs, opened, served, ranked, stage1))
            furnish_all(plans[1], gangs)
            worth.append(worth_of(plans[1]))
            if not max(worth) >= stage1.bound * (1 - _REACHED):
                effort = Effort(self.exact_variables, self.nodes, self.solver_seconds)
                exact = exact_plan(gangs, opened, served, effort)
                if exact.cut_short:
                    notes.append(CUT_SHORT)
                if exact.plan is not None:
                    plans.append(exact.plan)
                    furnish_all(exact.plan, gangs)
                    worth.append(worth_of(exact.plan))
        best = plans[int(np.argmax(np.round(worth, 9)))]
        keep_stopped(snapshot, gangs, best, ranked, chosen)
        write_draft(snapshot, transaction, best, ranked, chosen, codes, a, b)
        return tuple(notes)

    def least_per_gpu(self, snapshot: Snapshot) -> Ints:
        """The fair demand."""
        return fair_per_gpu(snapshot)


def _dealt(
    gangs: Gangs, opened: PlacementDraft, served: Ints, ranked: Ints, stage1: Pooled
) -> PlacementDraft:
    """The points of stage 1 dealt over the machines."""
    wanted, of_kind = points_of_jobs(gangs, served, stage1)
    plan = empty_copy(opened)
    assign_nodes(plan, gangs, of_kind, served, ranked, wanted)
    return plan
