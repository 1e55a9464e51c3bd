"""EASY and conservative backfill: jobs pass others that wait, as long as no reservation is delayed.

A reservation is a place and a start that hold whatever happens, as long as running jobs end by their time limits. It is
kept from decision to decision, and only moves to an earlier start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, inf, isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import CPU, GPU, MEMORY, MICRO, STORAGE, Ints
from muster.cluster.resources import BUILT_IN_COUNT
from muster.schedulers.backfill.profile import ReservationProfile
from muster.schedulers.backfill.running import holdings
from muster.schedulers.backfill.scheduler import BackfillScheduler
from muster.schedulers.contract import Decision, Proposal, Snapshot, State, Trigger
from muster.schedulers.honours import FURTHER_RESOURCES, PRIORITY, REQUESTS, honoured_by_all
from muster.schedulers.parts import (
    Allocation,
    Backfill,
    Order,
    Part,
    Placement,
    checked_keys,
    setting,
)
from muster.schedulers.placement.job_columns import PACK
from muster.schedulers.reasons import NO_GPUS, PLACED, RESERVED

_INSTANT = 1e-6
_OVERRUN_SECONDS = 60.0
"""How long at least a job that has passed its limit is taken to run on."""


class Reservation(NamedTuple):
    """What is kept free for a waiting job."""

    start: float
    nodes: Ints
    amounts: Ints
    """By node and resource, in millionths."""


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

    def __post_init__(self) -> None:
        for name in ("reservations", "depth"):
            value = getattr(self, name)
            if not value >= 1 or (isfinite(value) and value != int(value)):
                raise ValueError(f"{name}: allowed: a whole number from 1 on, or inf")
        if not self.window_seconds > 0:
            raise ValueError("window_seconds: allowed: a number of seconds above 0")
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
        return honoured_by_all(self.parts) & {REQUESTS, FURTHER_RESOURCES, PRIORITY}

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
        jobs, now = snapshot.jobs, snapshot.now
        keys, memory = self.order.keys(snapshot, state["order"])
        keys = checked_keys(self.order, keys, jobs)
        waiting = np.flatnonzero(jobs.waiting)
        reserved: dict[int, Reservation] = state["reserved"]
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(jobs))
            ranked = waiting[np.argsort(keys[waiting], kind="stable")]
            plan.ranked = ranked
            due = self._due(now)
            if len(ranked) and due <= now:
                reserved = self._serve(snapshot, plan, ranked, reserved)
            elif len(ranked):
                plan.reasons[ranked], plan.reason_a[ranked] = NO_GPUS, jobs.requested_gpus[ranked]
                plan.reason_b[ranked] = snapshot.ledger.books.totals[GPU] / MICRO
            starts = [one.start for one in reserved.values() if one.start > now]
            plan.next_wake = min(starts, default=inf) if due <= now else due
            if len(jobs):
                plan.next_wake = min(plan.next_wake, self.order.next_tick(snapshot, memory))
            plan.stable_until = plan.next_wake
            plan.wake_on = Trigger.ALL if plan.reasons.any() else Trigger.ALL & ~Trigger.COMPLETION
            return plan.decision(), {"order": memory, "reserved": reserved}

    def _due(self, now: float) -> float:
        """The next moment from now on at which jobs may start."""
        interval = self.rule.interval_seconds
        return ceil(now / interval - _INSTANT) * interval if interval else now

    def _serve(
        self, snapshot: Snapshot, plan: Proposal, ranked: Ints, before: dict[int, Reservation]
    ) -> dict[int, Reservation]:
        """Start or reserve each job in order; the reservations that hold from now on."""
        jobs, now, rule = snapshot.jobs, snapshot.now, self.rule
        profile = self._profile(snapshot)
        limits, requested, constraints = (
            jobs.time_limit.tolist(),
            jobs.gpus.tolist(),
            jobs.constraint.tolist(),
        )
        numbers, totals = jobs.index.tolist(), snapshot.ledger.books.totals
        needs = np.ascontiguousarray(self.allocation.resource_options(snapshot, jobs)[:, 0])
        most = self._most_nodes(snapshot)
        kept = self._kept(snapshot, profile, ranked, limits, before)
        left = rule.depth
        reserved: dict[int, Reservation] = {}
        plan.reasons[ranked], plan.reason_a[ranked] = NO_GPUS, jobs.requested_gpus[ranked]
        plan.reason_b[ranked] = snapshot.ledger.books.totals[GPU] / MICRO
        allowed = snapshot.table.node_allowed
        hopeless: dict[tuple[int, int, int], float] = {}
        for at in ranked.tolist():
            if left <= 0:
                break
            job, limit, gpus = numbers[at], limits[at], requested[at]
            own = kept.pop(job, None)
            may_reserve = own is not None or len(reserved) < rule.reservations
            kind = gpus, constraints[at], min(at, len(needs) - 1)
            if not may_reserve and (gpus * MICRO > totals[GPU] or limit >= hopeless.get(kind, inf)):
                left -= 1
                continue
            if own is not None:
                profile.change(own.start, own.start + limit, own.nodes, own.amounts, 1)
                hopeless.clear()
            latest = now + rule.window_seconds if may_reserve else now
            found = profile.earliest(
                gpus, needs[kind[2]], limit, allowed[constraints[at]], most(gpus), latest
            )
            if own is not None and (found is None or found[0] >= own.start):
                found = own
            if found is None:
                left -= 1
                if not may_reserve:  # From now on only less is free, until a reservation moves.
                    hopeless[kind] = min(limit, hopeless.get(kind, inf))
                continue
            place = Reservation(*found)
            profile.change(place.start, place.start + limit, place.nodes, place.amounts, -1)
            if place.start <= now:
                self._start(snapshot, plan, at, place)
            else:
                left -= 1
                reserved[job] = place
                plan.reasons[at], plan.reason_a[at], plan.reason_b[at] = RESERVED, place.start - now, 0.0
        return reserved

    def _profile(self, snapshot: Snapshot) -> ReservationProfile:
        """What is free from now on, if running jobs end by their limits."""
        nodes, now, held = snapshot.ledger.books.nodes, snapshot.now, holdings(snapshot)
        profile = ReservationProfile(nodes["free"], nodes["share"], now)
        if held is not None:
            ends = held.started + held.limits
            # The longer it is over its limit, the longer it may take.
            ends = np.where(ends <= now, now + np.maximum(now - ends, _OVERRUN_SECONDS), ends)
            if resolution := self.rule.resolution_seconds:
                ends = np.ceil(ends / resolution) * resolution
            profile.add_running(ends, held.first, held.nodes, held.amounts)
        return profile

    def _kept(
        self,
        snapshot: Snapshot,
        profile: ReservationProfile,
        ranked: Ints,
        limits: list[float],
        before: dict[int, Reservation],
    ) -> dict[int, Reservation]:
        """The reservations that still hold, of the first jobs that may have one; they are taken out of the profile."""
        kept: dict[int, Reservation] = {}
        for at in ranked.tolist():
            job = int(snapshot.jobs.index[at])
            if len(kept) >= min(self.rule.reservations, self.rule.depth, len(before)):
                break
            if job not in before:
                continue
            own, limit = before[job], limits[at]
            own = own._replace(start=max(own.start, snapshot.now))
            if profile.holds(own.start, own.start + limit, own.nodes, own.amounts):
                profile.change(own.start, own.start + limit, own.nodes, own.amounts, -1)
                kept[job] = own
        return kept

    def _most_nodes(self, snapshot: Snapshot) -> Any:
        """On how many nodes a job of so many GPUs may be."""
        if self.placement.rule == PACK:
            return lambda gpus: gpus
        most = max(int(snapshot.ledger.books.nodes["gpus"].max()), 1)
        return lambda gpus: -(-gpus // most)

    def _start(self, snapshot: Snapshot, plan: Proposal, at: int, place: Reservation) -> None:
        """Give a job its place now."""
        job, ledger = int(snapshot.jobs.index[at]), snapshot.ledger
        plan.transaction.put(
            job,
            [
                NodeAllocation(
                    node,
                    ledger.free_ids(node)[: amounts[GPU] // MICRO],
                    amounts[CPU] / MICRO,
                    amounts[MEMORY] / MICRO,
                    amounts[STORAGE] / MICRO,
                    further=tuple(amount / MICRO for amount in amounts[BUILT_IN_COUNT:]),
                )
                for node, amounts in zip(place.nodes.tolist(), place.amounts.tolist(), strict=True)
            ],
        )
        plan.reasons[at], plan.reason_a[at], plan.reason_b[at] = PLACED, 0.0, 0.0
