"""A scheduler composed of parts: rank, select, choose by GPU count, then place; the shape of most policies."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.cluster import Cluster
from muster.cluster.books import MICRO, WHOLE
from muster.schedulers.contract import Floats, Ints, Plan, State, Trigger, View
from muster.schedulers.parts import Allocation, Order, Placement, Selection, settings_of
from muster.schedulers.placement.kernels import count_walk, serve
from muster.schedulers.reasons import PLACED

_NOBODY = np.zeros(0, np.int64)
_INSTANT = 1e-6
"""Seconds by which a promise of stability is cut short, so that rounding cannot make it a lie."""


@dataclass(frozen=True)
class Composed:
    """`ORDER+ALLOCATION+PLACEMENT` with any selection parts in front."""

    order: Order
    allocation: Allocation
    placement: Placement
    selections: tuple[Selection, ...] = ()
    preemptive: bool = True
    """Whether running jobs compete with waiting ones for their GPUs."""
    strict: bool = False
    """Whether nobody passes a job that does not fit."""
    promote_after_seconds: float = inf
    """Against starvation: a job that has waited so long since it last ran goes first from then on."""

    @property
    def name(self) -> str:
        """As on the command line, every part spelled out."""
        parts = (*self.selections, self.order, self.allocation, self.placement)
        return "+".join(dict.fromkeys(part.name for part in parts))

    def describe(self) -> dict[str, Any]:
        """Parts, settings and rules, for the record."""
        parts = (*self.selections, self.order, self.allocation, self.placement)
        return {
            "name": self.name,
            "parts": {slot: part.name for part in parts for slot in part.slots},
            "settings": {part.name: settings_of(part) for part in parts if settings_of(part)}
            | {
                "preemptive": self.preemptive,
                "strict": self.strict,
                "promote_after_seconds": self.promote_after_seconds,
            },
            "needs": sorted({need for part in parts for need in part.needs}),
        }

    def initial(self, cluster: Cluster) -> State:
        """What its parts remember, and nobody promoted."""
        return {"order": self.order.initial(cluster), "promoted": ()}

    def decide(self, view: View, state: State) -> tuple[Plan, State]:
        """Rank, select, choose, place."""
        jobs = view.jobs
        codes = np.zeros(len(jobs), np.int64)
        a, b = np.zeros(len(jobs)), np.zeros(len(jobs))
        draft = view.draft()
        waiting = jobs.waiting
        if waiting.any():
            state = self._serve(view, state, waiting, codes, a, b)
        left_waiting = np.flatnonzero(codes != PLACED)
        wake_on = Trigger.ALL if len(left_waiting) else Trigger.ALL & ~Trigger.COMPLETION
        plan = Plan(draft, codes, a, b, stable_until=inf, wake_on=wake_on)
        if len(left_waiting):
            self._promise(view, state, plan, left_waiting)
        return plan, state

    def _serve(
        self, view: View, state: State, waiting: NDArray[np.bool_], codes: Ints, a: Floats, b: Floats
    ) -> State:
        """Write the draft and the reasons; the next state."""
        keys, memory = self.order.keys(view, state["order"])
        jobs = view.jobs
        if self.preemptive:
            positions = np.arange(len(jobs))
            pool = jobs
        else:
            positions = np.flatnonzero(waiting)
            pool = jobs.where(waiting)
            keys = keys[positions]
        gpus, milli = pool.gpus, pool.gpu_milli
        promoted = state["promoted"]
        ranked = _ranked(keys, np.isin(pool.index, promoted) if promoted else None)
        if isfinite(self.promote_after_seconds):
            overdue = waiting & (view.now - jobs.last_stop > self.promote_after_seconds)
            promoted = tuple(sorted({*promoted, *jobs.index[overdue].tolist()}))
        pinned = self._pinned(view) if self.preemptive or self.selections else None
        for selection in self.selections:
            assert pinned is not None
            ranking = selection.select(view, positions[ranked], pinned)
            codes[ranking.excluded] = ranking.code
            a[ranking.excluded], b[ranking.excluded] = ranking.a, ranking.b
            ranked = np.searchsorted(positions, ranking.ranked)
            for job in jobs.index[ranking.excluded]:
                view.draft().release(int(job))

        if self.preemptive:
            demand = gpus * milli * (MICRO // WHOLE)
            held = np.where(codes == PLACED, pool.held_gpus * MICRO, 0.0).astype(np.int64)
            may_stop = ~pinned
            chosen = np.zeros(len(pool), np.int64)
            budget = int(view.ledger.books.totals[0]) + int(held.sum())
            count_walk(
                np.where(held > 0, held, demand), may_stop | (held == 0), ranked, budget, self.strict, chosen
            )
        else:
            chosen = np.ones(len(pool), np.int64)
        ladder = self.allocation.ladder(view, pool)
        books = view.ledger.reserve(int(view.cluster.total_gpus) + len(pool), 3 * len(jobs))
        pool_codes, pool_a, pool_b = codes[positions], a[positions], b[positions]
        serve(
            books,
            pool.index,
            gpus,
            milli,
            pool.constraint,
            view.table.node_allowed,
            ranked,
            chosen,
            ladder,
            self.placement.rule,
            self.strict,
            pool_codes,
            pool_a,
            pool_b,
        )
        codes[positions], a[positions], b[positions] = pool_codes, pool_a, pool_b
        return {"order": memory, "promoted": promoted}

    def _pinned(self, view: View) -> NDArray[np.bool_]:
        """Running jobs that may not be stopped now."""
        jobs = view.jobs
        young = view.now - jobs.last_start < jobs.min_runtime
        pinned: NDArray[np.bool_] = jobs.running & (young | ~jobs.preemptible)
        return pinned

    def _promise(self, view: View, state: State, plan: Plan, waiting: Ints) -> None:
        """How long the plan holds if nothing happens while these jobs wait, and when to ask again."""
        jobs = view.jobs
        timers = inf
        if isfinite(self.promote_after_seconds):
            due = jobs.last_stop[waiting] + self.promote_after_seconds
            timers = float(due[due > view.now].min(initial=inf))
        quantum_tick = overtaken = inf
        if self.preemptive:
            running = np.flatnonzero(plan.reasons == PLACED)
            min_runtime = jobs.min_runtime[running]
            if min_runtime.any():
                free_again = np.where(np.isnan(jobs.last_start), view.now, jobs.last_start)[running] + min_runtime
                timers = min(timers, float(free_again[free_again > view.now].min(initial=inf)))
            keys, _ = self.order.keys(view, state["order"])
            overtaken = self.order.overtaken_at(view, np.asarray(keys, np.float64), running, waiting) - _INSTANT
            quantum = self.order.quantum_seconds
            if isfinite(quantum) and overtaken < inf:
                quantum_tick = view.now + quantum * max(1, ceil((overtaken - view.now) / quantum))
        plan.stable_until = min(overtaken, timers)
        plan.next_wake = min(quantum_tick, timers)


def _ranked(keys: Floats | Ints, promoted: NDArray[np.bool_] | None) -> Ints:
    """Positions by (promoted first, key, arrival)."""
    if promoted is not None:
        return np.lexsort((keys, ~promoted))
    if len(keys) < 2 or (keys[:-1] <= keys[1:]).all():
        return np.arange(len(keys))
    return np.argsort(keys, kind="stable")
