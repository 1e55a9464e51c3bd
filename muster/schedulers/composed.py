"""A scheduler composed of parts: rank, select, choose by GPU count, then place; the shape of most policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf, isfinite
from typing import Any

import numpy as np

from muster.cluster import Cluster
from muster.cluster.books import GPU
from muster.cluster.ledger import Draft
from muster.schedulers.ageing import next_overdue, overdue, promoted_first
from muster.schedulers.contract import Bools, Floats, Ints, Plan, State, Trigger, View
from muster.schedulers.parts import (
    DURATIONS,
    Allocation,
    Allotment,
    Order,
    Part,
    Placement,
    Selection,
    described,
    named,
)
from muster.schedulers.placement.kernels import count_walk, serve
from muster.schedulers.reasons import NO_PLACE, PLACED

_INSTANT = 1e-6
"""Seconds by which a promise of stability is cut short, so that rounding cannot undo it."""


@dataclass(frozen=True)
class RungsAndRule(Allotment):
    """Allocation and placement apart: the first rung of a job's ladder for which the placement rule has a place."""

    allocation: Allocation
    placement: Placement
    strict: bool

    def allot(
        self, view: View, draft: Draft, ranked: Ints, chosen: Bools, codes: Ints, a: Floats, b: Floats
    ) -> None:
        """Running jobs keep their place, or are stopped if they are not chosen; then the others in order."""
        jobs = view.jobs
        ladder = self.allocation.ladder(view, jobs)
        books = draft.ledger.reserve(view.cluster.total_gpus + len(jobs), 3 * len(jobs))
        serve(
            books,
            view.table.asked,
            jobs.index,
            view.table.node_allowed,
            ranked,
            chosen,
            ladder,
            self.placement.rules(view),
            self.strict,
            codes,
            a,
            b,
        )


@dataclass(frozen=True)
class Composed:
    """`ORDER+ALLOCATION+PLACEMENT` with any selection parts in front."""

    order: Order
    parts: tuple[Part, ...]
    """All of its parts as they are named, the order included."""
    allotment: Allotment
    selections: tuple[Selection, ...] = ()
    preemptive: bool = True
    """Whether running jobs compete with waiting ones for their GPUs."""
    strict: bool = False
    """Whether nobody passes a job that does not fit."""
    promote_after_seconds: float = inf
    """Against starvation: a job that has waited so long since it last ran goes first from then on."""
    preset: str = field(default="", compare=False)
    """The name under which its parts were asked for, if that is a preset's."""

    @property
    def name(self) -> str:
        """As on the command line: a preset by its own name, else every part spelled out."""
        return self.preset or named(self.parts)

    def describe(self) -> dict[str, Any]:
        """Parts, settings and rules, for the record."""
        promote = self.promote_after_seconds
        common = {
            "preemptive": self.preemptive,
            "strict": self.strict,
            "promote_after_seconds": promote if isfinite(promote) else None,
        }
        return described(self.name, self.parts, common)

    def initial(self, cluster: Cluster) -> State:
        """What its order remembers, and nobody promoted."""
        return {"order": self.order.initial(cluster), "promoted": ()}

    def shortest_turn(self, round_seconds: float | None, *, durations_known: bool) -> float:
        """Seconds after which jobs that take turns may be switched; inf where there are no turns."""
        turns = self.order.takes_turns or (DURATIONS in self.order.needs and not durations_known)
        if not (self.preemptive and turns):
            return inf
        return self.order.quantum() if round_seconds is None else round_seconds

    def decide(self, view: View, state: State) -> tuple[Plan, State]:
        """Rank, select, choose, place; with nobody waiting everything stays, unless the allotment never rests."""
        count = len(view.jobs)
        codes, a, b = np.zeros(count, np.int64), np.zeros(count), np.zeros(count)
        plan = Plan(view.draft(), codes, a, b, stable_until=inf, wake_on=Trigger.ALL & ~Trigger.COMPLETION)
        (who_waits,) = view.jobs.waiting.nonzero()
        if self.allotment.rests and not len(who_waits):
            return plan, state
        candidates = None if self.preemptive else who_waits
        if candidates is not None and type(self.order).keys is Order.keys:
            # A key goes by the job's own columns: those of running jobs are of no use here.
            keys, memory = self.order.key(view.jobs.at(candidates)), state["order"]
        else:
            keys, memory = self.order.keys(view, state["order"])
            if candidates is not None:
                keys = keys[candidates]
        promoted: tuple[int, ...] = state["promoted"]
        ranked = np.argsort(keys, kind="stable")
        if promoted:
            among = view.jobs.index if candidates is None else view.jobs.index[candidates]
            ranked = promoted_first(ranked, among, np.array(promoted))
        if candidates is not None:
            ranked = candidates[ranked]
        newly: set[int] = set()
        if isfinite(self.promote_after_seconds):
            late = overdue(view.table.facts, view.jobs.index, view.now, self.promote_after_seconds)
            newly = set(late.tolist()).difference(promoted)
            if newly:
                promoted = tuple(sorted(newly.union(promoted).intersection(view.jobs.index.tolist())))
        self._serve(view, plan, ranked)
        (still_waiting,) = codes.nonzero()
        if len(still_waiting) or not self.allotment.rests:
            plan.wake_on = Trigger.ALL
            self._promise(view, plan, np.asarray(keys, np.float64), still_waiting)
        if newly:  # They go first from the next decision on.
            plan.stable_until, plan.next_wake = -inf, view.now
        return plan, {"order": memory, "promoted": promoted}

    def _serve(self, view: View, plan: Plan, ranked: Ints) -> None:
        """Write the draft and the reasons."""
        jobs, codes = view.jobs, plan.reasons
        pinned = jobs.pinned
        for selection in self.selections:
            ranking = selection.select(view, ranked, pinned)
            ranked = ranking.ranked
            codes[ranking.excluded] = ranking.code
            plan.reason_a[ranking.excluded], plan.reason_b[ranking.excluded] = ranking.a, ranking.b
            for job in jobs.index[ranking.excluded].tolist():
                plan.draft.release(job)
        chosen = np.ones(len(jobs), np.bool_)
        if self.preemptive or not self.allotment.rests:
            asked, facts = view.table.asked, view.table.facts
            free = view.ledger.books.totals[GPU] + view.ledger.releasing_gpus()
            count_walk(asked, facts, jobs.index, pinned, ranked, free, self.strict, chosen)
        notes = self.allotment.allot(view, plan.draft, ranked, chosen, codes, plan.reason_a, plan.reason_b)
        plan.notes = notes or ()

    def _promise(self, view: View, plan: Plan, keys: Floats, waiting: Ints) -> None:
        """How long the plan holds if nothing happens while these jobs wait, and when to ask again."""
        jobs, now = view.jobs, view.now
        timers = inf
        if isfinite(self.promote_after_seconds):
            timers = next_overdue(view.table.facts, jobs.index[waiting], now, self.promote_after_seconds)
        next_quantum = overtaken = inf
        if self.preemptive:
            running = np.flatnonzero(plan.reasons == PLACED)
            quantum = self.order.quantum()
            overtaken = self.order.overtaken_at(view, keys, running, waiting) - _INSTANT
            stopped_in_vain = bool((plan.reasons == NO_PLACE).any())
            if stopped_in_vain or (self.allotment.by_order and not self.order.steady):
                overtaken = -inf
            if view.table.some_pinned:
                started = np.where(np.isnan(jobs.last_start), now, jobs.last_start)
                may_stop = (started + jobs.min_runtime)[running]
                free_to_stop = float(may_stop[may_stop > now].min(initial=inf))
                # Jobs in turns keep theirs: whoever may be stopped in the middle of one is asked at its end.
                overtaken = min(overtaken, free_to_stop)
                timers = timers if isfinite(quantum) else min(timers, free_to_stop)
            if isfinite(quantum) and overtaken < inf:
                next_quantum = now + quantum * max(1, ceil((max(overtaken, now) - now) / quantum))
        plan.stable_until = min(overtaken, timers)
        plan.next_wake = min(next_quantum, timers)
