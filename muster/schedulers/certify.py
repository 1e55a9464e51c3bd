"""The optimality gap of any scheduler: each decision beside the most that any decision could reach.

The measure is GPUs times speed, summed over the jobs of whole GPUs; speed is relative to each model's reference, by
CPU, memory and storage alone. The bound holds for every choice among all jobs that run or wait: on any nodes, with any
amounts, fair or not, in any order. Where jobs take turns on a GPU, no value is recorded: the measure does not know
their turns. Schedulers that size jobs with workers and servers have a measure of their own
(`workers_and_servers.certificate`); under another scheduler such jobs have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import inf, isnan
from typing import Any

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import NO_CHANGES
from muster.cluster.ledger_arrays import MICRO, WHOLE, Bools, Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.allocation.gangs import gangs_of
from muster.schedulers.allocation.placed import placed_bound
from muster.schedulers.allocation.pooled import pooled
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State, Trigger, checked_answer
from muster.schedulers.reasons import NOT_CONSIDERED, PLACED
from muster.schedulers.workers_and_servers.certificate import certified
from muster.schedulers.workers_and_servers.interval import PeriodicScheduler
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

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """The other's decision, what it reaches and its bound; measured again where a job left and it did not ask."""
        asked: _Asked = state
        asked = replace(asked, unseen=asked.unseen | snapshot.triggers)
        if asked.is_due(snapshot.now):
            decide = self.inner.decide
            if isinstance(self.inner, PeriodicScheduler):
                decide = partial(certified, self.inner)
            answer = decide(replace(snapshot, triggers=asked.unseen), asked.inner)
            decision, inner = checked_answer(self.inner, answer)
            asked = _Asked(inner, decision.wake_on, decision.next_wake, decision.stable_until)
        else:
            decision = _as_it_is(snapshot, asked)
        decision = decision._replace(wake_on=decision.wake_on | Trigger.COMPLETION)
        if isnan(decision.bound) and (not len(snapshot.jobs) or _measurable(snapshot).any()):
            with snapshot.transaction() as transaction:
                transaction.try_out(decision.changes)
                if not _some_take_turns(snapshot):
                    value, bound = speed_of_plan(snapshot), bound_of_decision(snapshot)
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


def _as_it_is(snapshot: Snapshot, asked: _Asked) -> Decision:
    """Every job keeps what it holds, or goes on waiting for its reason."""
    facts = snapshot.table.facts[snapshot.jobs.index]
    codes = np.where(snapshot.jobs.running, PLACED, np.maximum(facts["reason"], NOT_CONSIDERED))
    return Decision(
        NO_CHANGES,
        codes,
        facts["reason_a"],
        facts["reason_b"],
        next_wake=asked.next_wake,
        stable_until=asked.stable_until,
        wake_on=asked.wake_on,
    )


def bound_of_decision(snapshot: Snapshot) -> float:
    """Return the most that any decision could reach for the jobs of a snapshot: which run, where, with which amounts.

    Jobs may wait, be stopped, be spread over machines, and have less than their fair share. On a few machines each of
    them has limits of its own (`placed`); else, or where that proves less, one machine of each kind has all they have.
    """
    jobs = snapshot.jobs
    gangs = gangs_of(snapshot)
    usable = _usable(snapshot)
    most = (gangs.node_allowed * usable[:, 0]).sum(axis=1)
    served = np.flatnonzero(_measurable(snapshot) & (jobs.gpus <= most[gangs.constraint]))
    pool: Ints = np.zeros((len(gangs.kinds), RESOURCE_COUNT), np.int64)
    np.add.at(pool, gangs.kind_of_node, usable)
    return float(np.fmin(pooled(gangs, served, pool, fair=False).bound, placed_bound(gangs, served, usable)))


def bound_of_plan(snapshot: Snapshot) -> float:
    """Return the most that any plan could reach that runs the jobs that hold something and those that fit beside them.

    None may be below its fair share, and gangs are on as few machines as can be. To be asked in the transaction of the
    plan. The others fit by arrival and GPU count alone.
    """
    jobs, books = snapshot.jobs, snapshot.ledger.books
    gangs = gangs_of(snapshot)
    whole = _measurable(snapshot)
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
    pool: Ints = np.zeros((len(gangs.kinds), RESOURCE_COUNT), np.int64)
    np.add.at(pool, gangs.kind_of_node, _usable(snapshot))
    return pooled(gangs, np.array(served, np.int64), pool).bound


def _usable(snapshot: Snapshot) -> Ints:
    """What each node has: whole GPUs, then millionths."""
    nodes = snapshot.ledger.books.nodes
    usable: Ints = nodes["capacity"] - nodes["unavailable"]
    usable[:, 0] //= MICRO
    return usable


def speed_of_plan(snapshot: Snapshot) -> float:
    """GPUs times speed, summed over the jobs that the bound counts, on what the ledger says they hold."""
    books, models = snapshot.ledger.books, snapshot.resource_profiles.models
    jobs = snapshot.jobs.at(_measurable(snapshot))
    total = 0.0
    for job, model, gpus in zip(jobs.index.tolist(), jobs.model.tolist(), jobs.gpus.tolist(), strict=True):
        if books.heads[job] >= 0:
            total += gpus * held_speed(books, books.heads[job], models, model)
    return total


def _some_take_turns(snapshot: Snapshot) -> bool:
    """Whether jobs share GPUs in time slices."""
    rows, heads = snapshot.ledger.books.rows, snapshot.ledger.books.heads[snapshot.jobs.index]
    return bool((rows["group"][heads[heads >= 0]] >= 0).any())


def _measurable(snapshot: Snapshot) -> Bools:
    """Jobs of whole GPUs whose size is fixed."""
    jobs = snapshot.jobs
    fixed = (snapshot.table.asked["sync"][jobs.index] == RIGID) & ~jobs.elastic
    measurable: Bools = fixed & (jobs.gpu_milli == WHOLE)
    return measurable
