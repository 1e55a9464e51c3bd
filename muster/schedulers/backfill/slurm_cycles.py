"""Slurm's two clocks: a main loop that starts jobs in order, and backfill cycles that plan around reservations.

The main loop looks each second, and only after a job came or left. A backfill cycle follows `bf_interval` seconds after
the one before it, unless nothing has changed since. `docs/explanation/slurm.md` states the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import CPU, GPU, MEMORY, MICRO, STORAGE, Floats, Ints
from muster.cluster.resources import BUILT_IN_COUNT
from muster.schedulers.backfill.running import holdings
from muster.schedulers.backfill.scheduler import BackfillScheduler
from muster.schedulers.backfill.slurm_rules import PLANNED, STARTED, SlurmCycle
from muster.schedulers.contract import Decision, Jobs, Proposal, Snapshot, State, Trigger
from muster.schedulers.honours import PRIORITY, REQUESTS, honoured_by_all
from muster.schedulers.parts import (
    Backfill,
    Order,
    Part,
    check_seconds,
    checked_keys,
    setting,
)
from muster.schedulers.queue_order.multifactor import nodes_of
from muster.schedulers.reasons import NO_GPUS, NOT_CONSIDERED, PLACED, RESERVED

_INSTANT = 1e-6
_GOLDEN = 0.618033988749895
"""Its multiples, less the whole numbers, lie evenly between 0 and 1."""
_YEAR = 31_536_000
"""What Slurm takes for a job without a time limit."""
_NEWS = Trigger.ARRIVAL | Trigger.COMPLETION | Trigger.CAPACITY


@dataclass(frozen=True)
class SlurmCycles(Backfill):
    """Slurm's main loop and backfill cycles, as sched/backfill and select/cons_tres have them."""

    name: ClassVar[str] = "slurm-cycles"
    honours: ClassVar[frozenset[str]] = frozenset({REQUESTS})

    bf_interval: float = setting(30.0, "seconds that backfill sleeps between cycles")
    bf_cycle_seconds: float = setting(0.003, "seconds that a backfill cycle works")
    bf_window_seconds: float = setting(86_400.0, "how far ahead backfill plans")
    bf_resolution: int = setting(60, "seconds to which reservations are rounded down")
    bf_max_job_test: int = setting(500, "pending jobs that a backfill cycle tests at most")
    default_queue_depth: int = setting(100, "pending jobs that the main loop tests at most")
    main_interval: float = setting(1.0, "seconds between two looks of the main loop")
    main_phase: float = setting(0.5, "moment of a look of the main loop on the trace's clock")
    bf_phase: float = setting(0.25, "moment of a backfill cycle on the trace's clock")
    kill_wait: int = setting(30, "seconds that a job past its limit is taken to run on")

    def __post_init__(self) -> None:
        check_seconds(self, "bf_interval", "main_interval", "bf_window_seconds", finite=True)
        for name in ("bf_resolution", "bf_max_job_test", "default_queue_depth"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: allowed: a whole number from 1 on")
        if not 0 <= self.bf_cycle_seconds < inf:
            raise ValueError("bf_cycle_seconds: allowed: a number of seconds from 0 on")
        if self.kill_wait < 0:
            raise ValueError("kill_wait: allowed: a whole number of seconds from 0 on")

    def scheduler(self, order: Order, parts: tuple[Part, ...], preset: str) -> SlurmScheduler:
        """The scheduler that runs these cycles over jobs in an order."""
        return SlurmScheduler(order, parts, self, preset=preset)

    def phases(self, count: int) -> Iterator[dict[str, str]]:
        """Settings that spread the moments of both loops evenly, whatever those of the other."""
        interval = self.bf_interval + self.bf_cycle_seconds
        for at in range(count):
            main = _GOLDEN * at % 1.0 * self.main_interval
            yield {"main_phase": f"{main}", "bf_phase": f"{(at + 0.5) / count * interval}"}

    def next_main(self, now: float) -> float:
        """The next look of the main loop, from now on."""
        return _next_multiple(now, self.main_phase, self.main_interval)

    def next_backfill(self, now: float) -> float:
        """The next backfill cycle, from now on."""
        return _next_multiple(now, self.bf_phase, self.bf_interval + self.bf_cycle_seconds)


def _next_multiple(now: float, phase: float, interval: float) -> float:
    return phase + ceil((now - phase) / interval - _INSTANT) * interval


class Clocks(NamedTuple):
    """When each loop is due; inf: nothing has happened since it ran."""

    main: float
    backfill: float


@dataclass(frozen=True)
class SlurmScheduler(BackfillScheduler):
    """`ORDER+slurm-cycles`: CPUs and memory as requested, whole GPUs, nodes as Slurm chooses them."""

    cycles: SlurmCycles

    @property
    def honours(self) -> frozenset[str]:
        """What its parts honour."""
        return honoured_by_all(self.parts) & {REQUESTS, PRIORITY}

    def initial(self, cluster: Cluster) -> State:
        """What its order remembers, and that no loop is due."""
        return {"order": self.order.initial(cluster), "clocks": Clocks(inf, inf)}

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Run the loops that are due, and say when the next one is."""
        jobs, now, clocks = snapshot.jobs, snapshot.now, state["clocks"]
        keys, memory = self.order.keys(snapshot, state["order"])
        keys = checked_keys(self.order, keys, jobs)
        tick = self.order.next_tick(snapshot, memory)
        waiting = np.flatnonzero(jobs.waiting)
        if snapshot.triggers & _NEWS:
            clocks = Clocks(
                min(clocks.main, self.cycles.next_main(now)),
                min(clocks.backfill, self.cycles.next_backfill(now)),
            )
        elif tick < inf and snapshot.triggers & Trigger.TIMER:  # Another order may let others start.
            clocks = clocks._replace(backfill=min(clocks.backfill, self.cycles.next_backfill(now)))
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(jobs))
            facts = snapshot.table.facts
            plan.reasons[waiting] = np.maximum(facts["reason"][jobs.index[waiting]], NOT_CONSIDERED)
            plan.reason_a[waiting] = facts["reason_a"][jobs.index[waiting]]
            plan.reason_b[waiting] = facts["reason_b"][jobs.index[waiting]]
            ranked = waiting[np.argsort(keys[waiting], kind="stable")]
            plan.ranked = ranked
            if clocks.main <= now:
                started = self._run_main(snapshot, plan, ranked)
                ranked = ranked[plan.reasons[ranked] != PLACED]
                clocks = Clocks(inf, self._after(clocks, now, started))
            if clocks.backfill <= now:
                started = self._run_backfill(snapshot, plan, ranked)
                clocks = clocks._replace(backfill=inf)
                clocks = clocks._replace(backfill=self._after(clocks, now, started))
            some_wait = bool(plan.reasons.any())
            plan.next_wake = min(*clocks, inf) if some_wait else inf
            if len(jobs):
                plan.next_wake = min(plan.next_wake, tick)
            plan.stable_until = plan.next_wake
            plan.wake_on = Trigger.ALL if some_wait else Trigger.ALL & ~Trigger.COMPLETION
            return plan.decision(), {"order": memory, "clocks": clocks}

    def _after(self, clocks: Clocks, now: float, started: bool) -> float:
        """When backfill is due after a loop: a start is news for it."""
        if not started:
            return clocks.backfill
        return min(clocks.backfill, self.cycles.next_backfill(now + 2 * _INSTANT))

    # One loop

    def _run_main(self, snapshot: Snapshot, plan: Proposal, ranked: Ints) -> bool:
        """Start the first jobs, up to one that does not fit; whether any starts."""
        ranked = ranked[: self.cycles.default_queue_depth]
        if not len(ranked):
            return False
        cycle = self._cycle(snapshot, plan, for_backfill=False)
        tested = snapshot.jobs.at(ranked)
        wanted, needs = self._needs(snapshot, tested)
        allowed = snapshot.table.node_allowed[tested.constraint]
        started = cycle.main(wanted, needs, np.ascontiguousarray(allowed))
        for at, nodes in zip(ranked.tolist(), started, strict=False):
            self._start(snapshot, plan, at, nodes)
        if len(started) < len(ranked):
            self._explain(snapshot, plan, ranked[len(started) :][:1], NO_GPUS)
        return bool(started)

    def _run_backfill(self, snapshot: Snapshot, plan: Proposal, ranked: Ints) -> bool:
        """Start or plan each job in order; whether any starts."""
        settings, now = self.cycles, floor(snapshot.now + _INSTANT)
        tested_positions = ranked[: settings.bf_max_job_test]
        if not len(tested_positions):
            return False
        cycle = self._cycle(snapshot, plan, for_backfill=True)
        tested = snapshot.jobs.at(tested_positions)
        wanted, needs = self._needs(snapshot, tested)
        outcomes, starts, places = cycle.backfill(
            now,
            tested.index,
            wanted,
            needs,
            _limits(tested.time_limit),
            np.ascontiguousarray(snapshot.table.node_allowed[tested.constraint]),
            int(settings.bf_window_seconds),
            settings.bf_resolution,
        )
        for at, outcome, nodes in zip(tested_positions.tolist(), outcomes.tolist(), places, strict=True):
            if outcome == STARTED and nodes is not None:
                self._start(snapshot, plan, at, nodes)
        planned = tested_positions[outcomes == PLANNED]
        plan.reasons[planned], plan.reason_b[planned] = RESERVED, 0.0
        plan.reason_a[planned] = np.maximum(starts[outcomes == PLANNED] - now, 0)
        self._explain(
            snapshot, plan, tested_positions[(outcomes != PLANNED) & (outcomes != STARTED)], NO_GPUS
        )
        self._explain(snapshot, plan, ranked[settings.bf_max_job_test :], NO_GPUS)
        return bool((outcomes == STARTED).any())

    def _cycle(self, snapshot: Snapshot, plan: Proposal, *, for_backfill: bool) -> SlurmCycle:
        """The cluster as a loop sees it, with what this decision has started already."""
        nodes = snapshot.ledger.books.nodes
        completing = (nodes["releasing"][:, GPU] > 0) & (nodes["up"] == 1)
        free = nodes["free"] + (nodes["releasing"] if for_backfill else 0)
        cycle = SlurmCycle(free, completing, self.cycles.kill_wait)
        if not for_backfill:
            return cycle
        held = holdings(snapshot)
        if held is not None:
            cycle.add_running(
                np.floor(held.started + _INSTANT).astype(np.int64) + _limits(held.limits),
                held.jobs,
                held.first,
                held.nodes,
                held.amounts,
            )
        return cycle

    def _needs(self, snapshot: Snapshot, jobs: Jobs) -> tuple[Ints, Ints]:
        """Nodes of each job, and what it needs on each of them: GPUs, and CPUs and memory where it states them."""
        wanted = nodes_of(snapshot, jobs)
        gpus = -(-jobs.gpus // wanted)
        needs = np.maximum(jobs.requested, 0)
        needs = -(-needs // wanted[:, None])
        needs[:, GPU] = gpus * MICRO
        return wanted.astype(np.int64), np.ascontiguousarray(needs)

    def _start(self, snapshot: Snapshot, plan: Proposal, at: int, nodes: Ints) -> None:
        """Give a job its GPUs on these nodes: the lowest free ones, with what it requested beside them."""
        job = int(snapshot.jobs.index[at])
        asked, ledger = snapshot.table.asked, snapshot.ledger
        left, each = int(asked["gpus"][job]), -(-int(asked["gpus"][job]) // len(nodes))
        shares = []
        for node in nodes.tolist():
            ids = ledger.free_ids(node)[: min(each, left)]
            left -= len(ids)
            amounts = _beside(
                ledger.books.nodes[node], asked["requested"][job], len(ids), int(asked["gpus"][job])
            )
            shares.append(
                NodeAllocation(
                    node,
                    ids,
                    amounts[CPU] / MICRO,
                    amounts[MEMORY] / MICRO,
                    amounts[STORAGE] / MICRO,
                    further=tuple(amount / MICRO for amount in amounts[BUILT_IN_COUNT:]),
                )
            )
        plan.transaction.put(job, shares)
        plan.reasons[at] = PLACED

    def _explain(self, snapshot: Snapshot, plan: Proposal, positions: Ints, code: int) -> None:
        """Jobs that wait for GPUs: what each needs, and how many are free."""
        plan.reasons[positions] = code
        plan.reason_a[positions] = snapshot.jobs.requested_gpus[positions]
        plan.reason_b[positions] = snapshot.ledger.books.totals[GPU] / MICRO


def _limits(seconds: Floats) -> Ints:
    """Time limits in whole seconds; a year where there is none."""
    limits: Ints = np.ceil(np.minimum(seconds, _YEAR)).astype(np.int64)
    return limits


def _beside(node: Any, requested: Ints, gpus: int, gpus_in_all: int) -> list[int]:
    """What a job gets beside its GPUs on a node, in millionths: its part of the request, else their share."""
    amounts = []
    for resource, request in enumerate(requested.tolist()):
        share = int(node["share"][resource]) * gpus
        amount = share if request < 0 else request * gpus // max(gpus_in_all, 1)
        amounts.append(min(amount, int(node["free"][resource])))
    return amounts
