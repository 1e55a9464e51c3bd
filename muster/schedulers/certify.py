"""The optimality gap of any scheduler: each plan beside the most that one pooled machine could reach.

The measure is GPUs times speed, summed over the jobs of whole GPUs; speed is relative to each model's reference,
by CPU, memory and storage alone. The bound holds for every plan that runs some of the jobs that the plan runs and
of those whose GPUs fit beside them: on any machines, with any amounts, fair or not. Where jobs take turns on a GPU,
no value is recorded: the measure does not know their turns. Schedulers that size jobs with workers and servers have
a measure of their own (`workers_and_servers.certificate`); under another scheduler such jobs have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf, isnan
from typing import Any

import numpy as np

from muster.cluster import Cluster
from muster.cluster.books import MICRO, WHOLE, Bools, Ints
from muster.cluster.ledger import NO_CHANGES
from muster.schedulers.allocation.gangs import gangs_of
from muster.schedulers.allocation.pooled import pooled
from muster.schedulers.contract import Decision, Scheduler, State, Trigger, View
from muster.schedulers.reasons import NOT_CONSIDERED, PLACED
from muster.schedulers.workers_and_servers.certificate import certified
from muster.schedulers.workers_and_servers.interval import AtIntervals
from muster.speed.points import held_speed
from muster.workload.sized import RIGID


@dataclass(frozen=True)
class Certified:
    """Another scheduler, whose plans it leaves as they are and sets the bound beside, where they bring none."""

    inner: Scheduler

    @property
    def name(self) -> str:
        """That of the other."""
        return self.inner.name

    def describe(self) -> dict[str, Any]:
        """As the other, and that its plans are certified."""
        return {**self.inner.describe(), "certified": True}

    def initial(self, cluster: Cluster) -> State:
        """That of the other, which is asked at once."""
        return _Asked(self.inner.initial(cluster))

    def decide(self, view: View, state: State) -> tuple[Decision, State]:
        """The other's decision, what it reaches and its bound; measured anew where a job left and it did not care."""
        asked: _Asked = state
        asked = replace(asked, unseen=asked.unseen | view.triggers)
        if asked.is_due(view.now):
            decide = self.inner.decide
            if isinstance(self.inner, AtIntervals):
                decide = partial(certified, self.inner)
            decision, inner = decide(replace(view, triggers=asked.unseen), asked.inner)
            asked = _Asked(inner, decision.wake_on, decision.next_wake, decision.stable_until)
        else:
            decision = _as_it_is(view, asked)
        decision = decision._replace(wake_on=decision.wake_on | Trigger.COMPLETION)
        if isnan(decision.bound) and (not len(view.jobs) or _measurable(view).any()):
            with view.transaction() as transaction:
                transaction.try_out(decision.changes)
                if not _some_take_turns(view):
                    value, bound = speed_of_plan(view), bound_of_plan(view, fair=False)
                    decision = decision._replace(value=value, bound=bound)
        return decision, asked


@dataclass(frozen=True)
class _Asked:
    """The other's state, when it wants to be asked, and what happened since it was."""

    inner: State
    wake_on: int = Trigger.ALL
    next_wake: float = -inf
    stable_until: float = -inf
    unseen: int = 0

    def is_due(self, now: float) -> bool:
        """As the world would ask it; in a round what is not stable is asked too."""
        in_round = bool(self.unseen & Trigger.ROUND)
        timer = min(self.next_wake, self.stable_until) if in_round else self.next_wake
        return timer <= now or bool(self.unseen & self.wake_on & ~Trigger.ROUND)


def _as_it_is(view: View, asked: _Asked) -> Decision:
    """Every job keeps what it holds, or goes on waiting for its reason."""
    facts = view.table.facts[view.jobs.index]
    codes = np.where(view.jobs.running, PLACED, np.maximum(facts["reason"], NOT_CONSIDERED))
    return Decision(
        NO_CHANGES,
        codes,
        facts["reason_a"],
        facts["reason_b"],
        next_wake=asked.next_wake,
        stable_until=asked.stable_until,
        wake_on=asked.wake_on,
    )


def bound_of_plan(view: View, fair: bool = True) -> float:
    """The most that any plan could reach for the jobs that hold something and those whose GPUs fit beside them.

    With `fair`: any plan that runs all of them, none below its fair share, gangs on as few machines as can be.
    To be asked in the transaction of the plan. The others fit by arrival and GPU count alone.
    """
    jobs, books = view.jobs, view.ledger.books
    gangs = gangs_of(view)
    whole = _measurable(view)
    holds = books.heads[jobs.index] >= 0
    served = np.flatnonzero(holds & whole).tolist()
    left = books.nodes["free_gpus"].copy()
    for at in np.flatnonzero(~holds & whole).tolist():
        if not left.any():
            break
        allowed = np.flatnonzero(gangs.node_allowed[gangs.constraint[at]])
        upto = np.cumsum(left[allowed])
        if gangs.gpus[at] <= upto[-1]:
            served.append(at)
            left[allowed] -= np.diff(np.minimum(upto, gangs.gpus[at]), prepend=0)
    pool: Ints = np.zeros((len(gangs.kinds), 4), np.int64)
    usable = books.nodes["capacity"] - books.nodes["unavailable"]
    usable[:, 0] //= MICRO
    np.add.at(pool, gangs.kind_of_node, usable)
    return pooled(gangs, np.array(served, np.int64), pool, fair).bound


def speed_of_plan(view: View) -> float:
    """GPUs times speed, summed over the jobs that the bound counts, on what the ledger says they hold."""
    books, models = view.ledger.books, view.wants.models
    jobs = view.jobs.at(_measurable(view))
    total = 0.0
    for job, model, gpus in zip(jobs.index.tolist(), jobs.model.tolist(), jobs.gpus.tolist(), strict=True):
        if books.heads[job] >= 0:
            total += gpus * held_speed(books, books.heads[job], models, model)
    return total


def _some_take_turns(view: View) -> bool:
    """Whether jobs share GPUs in time slices."""
    rows, heads = view.ledger.books.rows, view.ledger.books.heads[view.jobs.index]
    return bool((rows["group"][heads[heads >= 0]] >= 0).any())


def _measurable(view: View) -> Bools:
    """Jobs of whole GPUs whose size is fixed."""
    fixed = view.table.asked["sync"][view.jobs.index] == RIGID
    measurable: Bools = fixed & (view.jobs.gpu_milli == WHOLE)
    return measurable
