"""EASY and conservative backfill: jobs pass others that wait, as long as no reservation is delayed.

A reservation is a place and a start that hold whatever happens, as long as running jobs end by their time limits. It is
kept from decision to decision, and only moves to an earlier start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import ClassVar, NamedTuple

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import GPU, MICRO, Bools, Floats, Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.backfill.reserving_core import ReservingCore
from muster.schedulers.backfill.scheduler import BackfillScheduler
from muster.schedulers.contract import Decision, Proposal, Snapshot, State, Trigger
from muster.schedulers.honours import DEADLINE, FURTHER_RESOURCES, PRIORITY, REQUESTS, honoured_by_all
from muster.schedulers.job_kinds import kinds
from muster.schedulers.parts import (
    Allocation,
    Backfill,
    Order,
    Part,
    Placement,
    check_seconds,
    keys_of,
    next_tick_of,
    setting,
)
from muster.schedulers.phases import log_phase
from muster.schedulers.reasons import NO_GPUS, PLACED, RESERVED

_ARRIVAL = 0
"""The compiled form of an order whose keys the core is given."""


class Reservation(NamedTuple):
    """What is kept free for a waiting job."""

    start: float
    nodes: Ints
    amounts: Ints
    """By node and resource, in millionths."""


def _may_hold(place: Reservation, allowed: Bools) -> bool:
    """Whether the nodes are there and the job may use them: a reservation may be of the cluster that was before."""
    known = place.amounts.shape[1] == RESOURCE_COUNT and place.nodes.max() < len(allowed)
    return known and bool(allowed[place.nodes].all())


@dataclass(frozen=True)
class Reserving(Backfill):
    """What EASY and conservative backfill have in common."""

    honours: ClassVar[frozenset[str]] = frozenset({REQUESTS, FURTHER_RESOURCES})
    others: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "allocation": ("proportional", "requested"),
        "placement": ("pack", "consolidate"),
    }

    reservations: float = setting(inf, "how many of the first waiting jobs have a reservation")
    window_seconds: float = setting(inf, "how far ahead a reservation may start; others wait without one")
    resolution_seconds: float = setting(
        0.0, "ends of running jobs are rounded up to multiples of this; 0: not"
    )
    interval_seconds: float = setting(0.0, "seconds between decisions; 0: whenever a job comes or leaves")
    depth: float = setting(inf, "how many jobs that do not start are looked at, from the first on")
    moving: float = setting(
        1.0, "how many of the first waiting jobs look for an earlier reservation in each decision"
    )

    default_limit_seconds: float = setting(
        86_400.0, "how long a job without a time limit is taken to run; inf: for ever"
    )

    def __post_init__(self) -> None:
        for name in ("reservations", "depth", "moving"):
            value = getattr(self, name)
            if not value >= 1 or (isfinite(value) and value != int(value)):
                raise ValueError(f"{name}: allowed: a whole number from 1 on, or inf")
        check_seconds(self, "window_seconds", "default_limit_seconds")
        for name in ("resolution_seconds", "interval_seconds"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name}: allowed: a number of seconds from 0 on")

    def scheduler(self, order: Order, parts: tuple[Part, ...], preset: str) -> ReservingScheduler:
        """The scheduler that lets jobs start in an order, and past each other by this rule."""
        return ReservingScheduler(order, parts, self, preset=preset)


@dataclass(frozen=True)
class Easy(Reserving):
    """EASY backfill: a job may pass others if the first one that waits still starts when its reservation says."""

    name: ClassVar[str] = "easy"

    reservations: float = setting(1.0, "how many of the first waiting jobs have a reservation")


@dataclass(frozen=True)
class Conservative(Reserving):
    """Conservative backfill: every job has a reservation, and none is ever delayed by a job that passes it."""

    name: ClassVar[str] = "conservative"


@dataclass(frozen=True)
class ReservingScheduler(BackfillScheduler):
    """`ORDER+easy` or `ORDER+conservative`, with `proportional` or `requested`, `pack` or `consolidate`."""

    rule: Reserving

    @property
    def honours(self) -> frozenset[str]:
        """What its parts honour."""
        return honoured_by_all(self.parts) & {REQUESTS, FURTHER_RESOURCES, PRIORITY, DEADLINE}

    @property
    def allocation(self) -> Allocation:
        """How much a job gets beside its GPUs."""
        return next(part for part in self.parts if isinstance(part, Allocation))

    @property
    def placement(self) -> Placement:
        """Where a job runs."""
        return next(part for part in self.parts if isinstance(part, Placement))

    def initial(self, cluster: Cluster) -> State:
        """What its order remembers; no reservation."""
        return {"order": self.order.initial(cluster), "reserved": {}}

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Start each job that can, in order, beside the reservations of those before it."""
        jobs = snapshot.jobs
        keys, memory = keys_of(self.order, snapshot, state["order"])
        waiting = np.flatnonzero(jobs.waiting)
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(jobs))
            plan.ranked = waiting[np.argsort(keys[waiting], kind="stable")]
            log_phase(snapshot, "ranked", plan.ranked)
            reserved: dict[int, Reservation] = {}
            if len(waiting):
                reserved = self._decide(snapshot, plan, keys, waiting, state["reserved"])
            log_phase(snapshot, "placed", lambda: plan.reasons == PLACED)
            log_phase(snapshot, "reserved", lambda: np.isin(jobs.index, list(reserved)))
            if len(jobs):
                plan.next_wake = min(plan.next_wake, next_tick_of(self.order, snapshot, memory))
            plan.stable_until = plan.next_wake
            plan.wake_on = Trigger.ALL if plan.reasons.any() else Trigger.ALL & ~Trigger.COMPLETION
            return plan.decision(), {"order": memory, "reserved": reserved}

    def _decide(
        self,
        snapshot: Snapshot,
        plan: Proposal,
        keys: Floats | Ints,
        waiting: Ints,
        reserved: Mapping[int, Reservation],
    ) -> dict[int, Reservation]:
        """Let the compiled form decide from scratch; the reservations from now on."""
        jobs, free = snapshot.jobs, snapshot.ledger.books.totals[GPU] / MICRO
        core = self.core(snapshot, _ARRIVAL)
        for job in jobs.index[jobs.running].tolist():
            core.run(job)
        allowed = snapshot.table.node_allowed
        columns = jobs.index[waiting], keys[waiting], jobs.time_limit[waiting], jobs.constraint[waiting]
        for job, key, limit, constraint in zip(*(column.tolist() for column in columns), strict=True):
            core.wait(job, key, limit)
            if job in reserved and _may_hold(reserved[job], allowed[constraint]):
                core.keep(job, *reserved[job])
        books = snapshot.ledger.reserve_decision(len(jobs))
        plan.next_wake = core.decide_once(books, snapshot.table.asked, snapshot.table.facts, snapshot.now)
        after = {job: Reservation(*one) for job, one in core.reservations().items()}
        self._explain(snapshot, plan, waiting, after, free)
        return after

    def core(self, snapshot: Snapshot, order: int, queues: tuple[float, ...] = ()) -> ReservingCore:
        """The compiled form for the jobs of a snapshot, which knows neither those that wait nor those that run yet.

        `order` is the number of the order's compiled form.
        """
        rule = self.rule
        settings = {
            "order": order,
            "rule": self.placement.rule,
            "most_gpus": int(snapshot.ledger.books.nodes["gpus"].max()),
            "durations_known": snapshot.jobs.durations_known,
            "reservations": rule.reservations,
            "moving": rule.moving,
            "depth": rule.depth,
            "window_seconds": rule.window_seconds,
            "resolution_seconds": rule.resolution_seconds,
            "interval_seconds": rule.interval_seconds,
            "default_limit_seconds": rule.default_limit_seconds,
        }
        return ReservingCore(settings, *kinds(self.allocation, snapshot), snapshot.table.node_allowed, queues)

    def _explain(
        self, snapshot: Snapshot, plan: Proposal, waiting: Ints, reserved: dict[int, Reservation], free: float
    ) -> None:
        """Why each waiting job that does not start waits."""
        jobs = snapshot.jobs
        left = waiting[snapshot.ledger.books.heads[jobs.index[waiting]] < 0]
        plan.reasons[left], plan.reason_a[left], plan.reason_b[left] = (
            NO_GPUS,
            jobs.requested_gpus[left],
            free,
        )
        for at in left.tolist():
            if (place := reserved.get(int(jobs.index[at]))) is not None:
                plan.reasons[at], plan.reason_a[at], plan.reason_b[at] = (
                    RESERVED,
                    place.start - snapshot.now,
                    0.0,
                )
