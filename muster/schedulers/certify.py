"""How far from the best possible: any scheduler, with the pooled bound of Synergy's opt beside each of its plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from muster.cluster import Cluster
from muster.cluster.books import MICRO, WHOLE, Ints
from muster.schedulers.allocation.gangs import gangs_of
from muster.schedulers.allocation.pooled import pooled
from muster.schedulers.contract import Plan, Scheduler, State, View
from muster.speed.points import held_speed


@dataclass(frozen=True)
class Certified:
    """Another scheduler, whose plans it leaves as they are and gives the bound to.

    The measure is GPUs times speed, summed over jobs of whole GPUs, speed being relative to each model's
    reference; `speed_of_plan` measures a plan by it.
    """

    inner: Scheduler

    @property
    def name(self) -> str:
        """That of the other."""
        return self.inner.name

    def describe(self) -> dict[str, Any]:
        """As the other, and that its plans are certified."""
        return {**self.inner.describe(), "certified": True}

    def initial(self, cluster: Cluster) -> State:
        """That of the other."""
        return self.inner.initial(cluster)

    def decide(self, view: View, state: State) -> tuple[Plan, State]:
        """The other's plan with its bound."""
        plan, state = self.inner.decide(view, state)
        plan.bound = bound_of_plan(view)
        return plan, state


def bound_of_plan(view: View) -> float:
    """The most that any plan could reach for the jobs that hold something and those whose GPUs fit beside them.

    To be asked while the plan's draft is in the ledger. The others fit by arrival and GPU count alone.
    """
    jobs, books = view.jobs, view.ledger.books
    gangs = gangs_of(view)
    whole = jobs.gpu_milli == WHOLE
    holds = books.heads[jobs.index] >= 0
    served = np.flatnonzero(holds & whole).tolist()
    left = int(books.nodes["free_gpus"].sum())
    for at in np.flatnonzero(~holds & whole).tolist():
        if gangs.gpus[at] <= left:
            served.append(at)
            left -= int(gangs.gpus[at])
    pool: Ints = np.zeros((len(gangs.kinds), 4), np.int64)
    usable = books.nodes["capacity"] - books.nodes["unavailable"]
    usable[:, 0] //= MICRO
    np.add.at(pool, gangs.kind_of_node, usable)
    return pooled(gangs, np.array(served, np.int64), pool).bound


def speed_of_plan(view: View) -> float:
    """GPUs times speed, summed over the jobs of whole GPUs, on what the ledger says they hold."""
    jobs, books, models = view.jobs, view.ledger.books, view.wants.models
    total = 0.0
    for job, model, gpus, milli in zip(
        jobs.index.tolist(), jobs.model.tolist(), jobs.gpus.tolist(), jobs.gpu_milli.tolist(), strict=True
    ):
        if milli == WHOLE and books.heads[job] >= 0:
            total += gpus * held_speed(books, books.heads[job], models, model)
    return total
