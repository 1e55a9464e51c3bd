"""Slurm's two clocks: a main loop that starts jobs in order, and backfill cycles that plan around reservations.

The main loop looks each second, and only after a job came or left. A backfill cycle follows `bf_interval` seconds after
the one before it, unless nothing has changed since. `docs/explanation/slurm.md` states the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import CPU, GPU, MEMORY, MICRO, STORAGE, Bools, Floats, Ints
from muster.cluster.resources import BUILT_IN_COUNT
from muster.schedulers.backfill.running import Holdings, holdings
from muster.schedulers.backfill.scheduler import BackfillScheduler
from muster.schedulers.backfill.slurm_preemption import SlurmPreemption, Victim
from muster.schedulers.backfill.slurm_rules import PLANNED, STARTED, SlurmCycle
from muster.schedulers.contract import Decision, Jobs, Proposal, Snapshot, State, Trigger
from muster.schedulers.honours import DEADLINE, NODES, PRIORITY, REQUESTS, honoured_by_all
from muster.schedulers.parts import (
    Order,
    Part,
    check_seconds,
    keys_of,
    next_tick_of,
    setting,
)
from muster.schedulers.phases import log_phase
from muster.schedulers.queue_order.multifactor import nodes_of
from muster.schedulers.reasons import NO_GPUS, NOT_CONSIDERED, PLACED, REQUEUED, RESERVED

_INSTANT = 1e-6
_GOLDEN = 0.618033988749895
"""Its multiples, less the whole numbers, lie evenly between 0 and 1."""
_YEAR = 31_536_000
"""What Slurm takes for a job without a time limit."""
_NEWS = Trigger.ARRIVAL | Trigger.COMPLETION | Trigger.CAPACITY


@dataclass(frozen=True)
class SlurmCycles(SlurmPreemption):
    """Slurm's main loop and backfill cycles, as sched/backfill and select/cons_tres have them."""

    name: ClassVar[str] = "slurm-cycles"
    honours: ClassVar[frozenset[str]] = frozenset({REQUESTS, NODES})

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
        super().__post_init__()
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


class Request(NamedTuple):
    """How many nodes a job needs, how much on each of them, and which it may use."""

    nodes: int
    needs: Ints
    usable: Bools


class Taken(NamedTuple):
    """The nodes of a job for which others were preempted, their numbers, and whether it starts at once."""

    nodes: Ints
    victims: list[int]
    starts: bool


@dataclass
class Preempted:
    """What the loops of one decision know of preemption, and what they remember for the next one."""

    requeued: dict[int, float]
    """When each requeued job may start again."""
    claims: dict[int, Ints]
    """Nodes on which others have made room for a job, while what they held is being released."""
    cancelled: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, state: State, now: float) -> Preempted:
        """What is remembered, without the jobs that may start again."""
        requeued = {job: until for job, until in state.get("requeued", {}).items() if until > now}
        return cls(requeued, dict(state.get("claims", {})))


@dataclass(frozen=True)
class SlurmScheduler(BackfillScheduler):
    """`ORDER+slurm-cycles`: CPUs and memory as requested, whole GPUs, nodes as Slurm chooses them."""

    cycles: SlurmCycles
    gives_only_requests: ClassVar[bool] = True

    @property
    def honours(self) -> frozenset[str]:
        """What its parts honour."""
        return honoured_by_all(self.parts) & {REQUESTS, PRIORITY, NODES, DEADLINE}

    def initial(self, cluster: Cluster) -> State:
        """What its order remembers, and that no loop is due."""
        return {"order": self.order.initial(cluster), "clocks": Clocks(inf, inf)}

    def due(self, state: State, now: float) -> State:
        """The state with both loops due, so that the next decision says of each job whether it starts."""
        return state | {"clocks": Clocks(now, now)}

    @property
    def cancels(self) -> bool:
        """Whether it may cancel jobs that run."""
        return self.cycles.cancels

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Run the loops that are due, and say when the next one is."""
        jobs, now = snapshot.jobs, snapshot.now
        keys, memory = keys_of(self.order, snapshot, state["order"])
        tick = next_tick_of(self.order, snapshot, memory)
        preempted = Preempted.of(state, now)
        clocks = self._clocks(snapshot, state, tick, len(preempted.requeued))
        waiting = np.flatnonzero(jobs.waiting)
        with snapshot.transaction() as transaction:
            plan = Proposal.blank(transaction, len(jobs))
            facts, who_wait = snapshot.table.facts, jobs.index[waiting]
            plan.reasons[waiting] = np.maximum(facts["reason"][who_wait], NOT_CONSIDERED)
            plan.reason_a[waiting] = facts["reason_a"][who_wait]
            plan.reason_b[waiting] = facts["reason_b"][who_wait]
            plan.ranked = self.cycles.ranked(snapshot, waiting, keys)
            ranked = plan.ranked
            log_phase(snapshot, "ranked", ranked)
            if preempted.requeued:
                ranked = ranked[~np.isin(jobs.index[ranked], list(preempted.requeued))]
            if clocks.main <= now:
                started = self._run_main(snapshot, plan, ranked, preempted)
                log_phase(
                    snapshot, "started by the main loop", lambda: ranked[plan.reasons[ranked] == PLACED]
                )
                ranked = ranked[plan.reasons[ranked] != PLACED]
                clocks = Clocks(inf, self._after(clocks, now, started))
            if clocks.backfill <= now:
                started = self._run_backfill(snapshot, plan, ranked, preempted)
                log_phase(snapshot, "started by backfill", lambda: ranked[plan.reasons[ranked] == PLACED])
                clocks = clocks._replace(backfill=inf)
                clocks = clocks._replace(backfill=self._after(clocks, now, started))
            some_wait = bool(plan.reasons.any())
            exempt_end = self._exempt_end(snapshot, plan)
            plan.next_wake = min(*clocks, *preempted.requeued.values(), exempt_end) if some_wait else inf
            if len(jobs):
                plan.next_wake = min(plan.next_wake, tick)
            plan.stable_until = plan.next_wake
            plan.wake_on = Trigger.ALL if some_wait else Trigger.ALL & ~Trigger.COMPLETION
            plan.cancelled = tuple(preempted.cancelled)
            after: State = {"order": memory, "clocks": clocks}
            if self.cycles.preempts:
                after |= {
                    "requeued": preempted.requeued,
                    "claims": preempted.claims,
                    "exempt_end": exempt_end,
                }
            return plan.decision(), after

    def _clocks(self, snapshot: Snapshot, state: State, tick: float, still_requeued: int) -> Clocks:
        """When each loop is due, with what has happened."""
        now, clocks = snapshot.now, state["clocks"]
        if snapshot.triggers & _NEWS:
            return Clocks(
                min(clocks.main, self.cycles.next_main(now)),
                min(clocks.backfill, self.cycles.next_backfill(now)),
            )
        may_start_again = still_requeued < len(state.get("requeued", ()))
        may_be_preempted = state.get("exempt_end", inf) <= now
        another_order = bool(tick < inf and snapshot.triggers & Trigger.TIMER)
        if may_start_again or may_be_preempted or another_order:
            return Clocks(clocks.main, min(clocks.backfill, self.cycles.next_backfill(now)))
        return Clocks(clocks.main, clocks.backfill)

    def _after(self, clocks: Clocks, now: float, started: bool) -> float:
        """When backfill is due after a loop: a start is news for it."""
        if not started:
            return clocks.backfill
        return min(clocks.backfill, self.cycles.next_backfill(now + 2 * _INSTANT))

    # One loop

    def _run_main(self, snapshot: Snapshot, plan: Proposal, ranked: Ints, preempted: Preempted) -> bool:
        """Start the first jobs, up to one that does not fit and may not preempt others; whether any starts."""
        left = ranked[: self.cycles.default_queue_depth]
        some_start = False
        while len(left):
            cycle = self._cycle(snapshot, plan, for_backfill=False)
            tested = snapshot.jobs.at(left)
            wanted, needs = self._needs(snapshot, tested)
            allowed = snapshot.table.node_allowed[tested.constraint]
            started = cycle.main(wanted, needs, np.ascontiguousarray(allowed))
            self._start_all(snapshot, plan, list(zip(left.tolist(), started, strict=False)), needs)
            some_start = some_start or bool(started)
            left, first = left[len(started) :], len(started)
            if not len(left):
                break
            usable = allowed[first] & ~self._completing(snapshot)
            found = self._preempt(
                snapshot, plan, preempted, int(left[0]), Request(wanted[first], needs[first], usable)
            )
            if found is None or not found.starts:
                self._explain(snapshot, plan, left[:1], NO_GPUS)
                break
            some_start, left = True, left[1:]
        return some_start

    def _run_backfill(self, snapshot: Snapshot, plan: Proposal, ranked: Ints, preempted: Preempted) -> bool:
        """Start or plan each job in order; whether any starts."""
        settings, now = self.cycles, floor(snapshot.now + _INSTANT)
        tested = ranked[: settings.bf_max_job_test]
        if not len(tested):
            return False
        cycle = self._cycle(snapshot, plan, for_backfill=True)
        cycle.begin_backfill(now, int(settings.bf_window_seconds))
        some_start, first = False, 0
        for last in [*self._preemptors(snapshot, tested), len(tested)]:
            some_start = self._plan(snapshot, plan, cycle, tested[first:last]) or some_start
            if last < len(tested):
                starts = self._plan_preempting(snapshot, plan, cycle, int(tested[last]), preempted)
                if starts is None:
                    starts = self._plan(snapshot, plan, cycle, tested[last : last + 1])
                some_start = some_start or starts
            first = last + 1
        self._explain(snapshot, plan, ranked[settings.bf_max_job_test :], NO_GPUS)
        return some_start

    def _plan(self, snapshot: Snapshot, plan: Proposal, cycle: SlurmCycle, positions: Ints) -> bool:
        """Start or plan jobs in order, and none at the cost of others; whether any starts."""
        if not len(positions):
            return False
        now, tested = floor(snapshot.now + _INSTANT), snapshot.jobs.at(positions)
        wanted, needs = self._needs(snapshot, tested)
        outcomes, starts, places = cycle.backfill(
            tested.index,
            wanted,
            needs,
            _limits(tested.time_limit),
            np.ascontiguousarray(snapshot.table.node_allowed[tested.constraint]),
            self.cycles.bf_resolution,
        )
        begin = [
            (at, nodes)
            for at, outcome, nodes in zip(positions.tolist(), outcomes.tolist(), places, strict=True)
            if outcome == STARTED and nodes is not None
        ]
        self._start_all(snapshot, plan, begin, needs[outcomes == STARTED])
        planned = positions[outcomes == PLANNED]
        plan.reasons[planned], plan.reason_b[planned] = RESERVED, 0.0
        plan.reason_a[planned] = np.maximum(starts[outcomes == PLANNED] - now, 0)
        self._explain(snapshot, plan, positions[(outcomes != PLANNED) & (outcomes != STARTED)], NO_GPUS)
        return bool((outcomes == STARTED).any())

    # Preemption

    def _exempt_end(self, snapshot: Snapshot, plan: Proposal) -> float:
        """The next moment at which a job that holds something may be preempted and could not be before."""
        if not self.cycles.preempts:
            return inf
        until = self.cycles.exempt_until(snapshot, snapshot.jobs.at(plan.reasons == PLACED))
        return float(until[until > snapshot.now + _INSTANT].min(initial=inf))

    def _preemptors(self, snapshot: Snapshot, positions: Ints) -> list[int]:
        """Places in the queue of jobs that may preempt some running job."""
        running = snapshot.jobs.at(snapshot.jobs.running)
        if not self.cycles.preempts or not len(running):
            return []
        may = self.cycles.may_preempt
        return [at for at, one in enumerate(positions.tolist()) if may(snapshot, one, running).any()]

    def _plan_preempting(
        self, snapshot: Snapshot, plan: Proposal, cycle: SlurmCycle, at: int, preempted: Preempted
    ) -> bool | None:
        """Let a job take the place of others if it does not fit beside them; whether it starts, None if it does not."""
        one = snapshot.jobs.at(np.array([at]))
        wanted, needs = self._needs(snapshot, one)
        limit = int(_limits(one.time_limit)[0])
        allowed = np.ascontiguousarray(snapshot.table.node_allowed[one.constraint[0]])
        usable = cycle.usable_now(allowed, limit)
        found = self._preempt(snapshot, plan, preempted, at, Request(wanted[0], needs[0], usable))
        if found is None:
            return None
        cycle.end_running(np.array(found.victims, np.int64))
        cycle.note_completing(self._completing(snapshot))
        job, resolution = int(one.index[0]), self.cycles.bf_resolution
        cycle.start_after_preemption(found.nodes, job, needs[0], limit, resolution, found.starts)
        return found.starts

    def _preempt(
        self, snapshot: Snapshot, plan: Proposal, preempted: Preempted, at: int, request: Request
    ) -> Taken | None:
        """Stop as few jobs as make room for a job, and start it; None if it may not, need not or cannot do so.

        Where it takes time until GPUs are free, the job starts in a later cycle and preempts no more jobs until then.
        """
        settings, job = self.cycles, int(snapshot.jobs.index[at])
        held = holdings(snapshot) if settings.preempts else None
        claimed = preempted.claims.pop(job, None)
        if held is None:
            return None
        if claimed is not None and self._completing(snapshot)[claimed].any():
            preempted.claims[job] = claimed
            return None
        candidates = self._candidates(snapshot, held, at)
        free, usable = np.ascontiguousarray(snapshot.ledger.books.nodes["free"]), request.usable
        trial = SlurmCycle(
            free, np.zeros(len(free), np.bool_), settings.kill_wait, _weights(snapshot.cluster)
        )

        def fits(amounts: Ints) -> Ints | None:
            return trial.fit(amounts, usable, request.needs, request.nodes)

        found = settings.choose(candidates, free, fits) if candidates and fits(free) is None else None
        if found is None:
            return None
        nodes, victims = found
        for victim in victims:
            self._stop(snapshot, plan, preempted, victim.job)
        starts = not self._completing(snapshot)[nodes].any()
        if starts:
            self._start(snapshot, plan, at, nodes)
        else:
            preempted.claims[job] = nodes
            self._explain(snapshot, plan, np.array([at]), NO_GPUS)
        return Taken(nodes, [victim.job for victim in victims], starts)

    def _candidates(self, snapshot: Snapshot, held: Holdings, at: int) -> list[Victim]:
        """Running jobs that the job at a position may preempt, in the order in which Slurm tries to."""
        positions = np.searchsorted(snapshot.jobs.index, held.jobs)
        running = snapshot.jobs.at(positions)
        may = self.cycles.may_preempt(snapshot, at, running)
        counts = np.diff(held.first)
        qos_priority: dict[str, float] = getattr(self.order, "qos_priority", {})
        order = self.cycles.sorted_candidates(snapshot, running, counts, qos_priority)
        found = []
        for one in order[may[order]].tolist():
            rows = slice(held.first[one], held.first[one + 1])
            found.append(Victim(int(held.jobs[one]), held.nodes[rows], held.amounts[rows]))
        return found

    def _stop(self, snapshot: Snapshot, plan: Proposal, preempted: Preempted, job: int) -> None:
        """Take a job's nodes away: it is requeued or cancelled, as its mode says."""
        at = int(np.searchsorted(snapshot.jobs.index, job))
        plan.transaction.release(job)
        plan.reasons[at], plan.reason_a[at], plan.reason_b[at] = REQUEUED, self.cycles.requeue_seconds, 0.0
        if self.cycles.modes(snapshot, snapshot.jobs.at(np.array([at])))[0] == "cancel":
            preempted.cancelled.append(job)
        else:
            preempted.requeued[job] = snapshot.now + self.cycles.requeue_seconds

    def _completing(self, snapshot: Snapshot) -> Bools:
        """Nodes on which something is being released."""
        nodes = snapshot.ledger.books.nodes
        completing: Bools = (nodes["releasing"][:, GPU] > 0) & (nodes["up"] == 1)
        return completing

    def _cycle(self, snapshot: Snapshot, plan: Proposal, *, for_backfill: bool) -> SlurmCycle:
        """The cluster as a loop sees it, with what this decision has started already."""
        nodes = snapshot.ledger.books.nodes
        free = nodes["free"] + (nodes["releasing"] if for_backfill else 0)
        weights = _weights(snapshot.cluster)
        cycle = SlurmCycle(free, self._completing(snapshot), self.cycles.kill_wait, weights)
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

    def _start_all(
        self, snapshot: Snapshot, plan: Proposal, begin: Sequence[tuple[int, Ints]], needs: Ints
    ) -> None:
        """Start jobs, each on its nodes; a share of CPUs and memory leaves what those after it need of the node."""
        promised = np.zeros_like(snapshot.ledger.books.nodes["free"])
        for (_, nodes), each in zip(begin, needs, strict=False):
            promised[nodes] += each
        for (at, nodes), each in zip(begin, needs, strict=False):
            promised[nodes] -= each
            self._start(snapshot, plan, at, nodes, promised)

    def _start(
        self, snapshot: Snapshot, plan: Proposal, at: int, nodes: Ints, promised: Ints | None = None
    ) -> None:
        """Give a job its GPUs on these nodes: the lowest free ones, with what it requested beside them.

        Of what it does not state it has its GPUs' share, if so much is free and not `promised` to others.
        """
        job = int(snapshot.jobs.index[at])
        asked, ledger = snapshot.table.asked, snapshot.ledger
        left, each = int(asked["gpus"][job]), -(-int(asked["gpus"][job]) // len(nodes))
        shares = []
        for node in nodes.tolist():
            ids = ledger.free_ids(node)[: min(each, left)]
            left -= len(ids)
            others = None if promised is None else promised[node]
            amounts = _beside(
                ledger.books.nodes[node], asked["requested"][job], len(ids), int(asked["gpus"][job]), others
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
        if not len(positions):
            return
        plan.reasons[positions] = code
        plan.reason_a[positions] = snapshot.jobs.at(positions).requested_gpus
        plan.reason_b[positions] = snapshot.ledger.books.totals[GPU] / MICRO


def _weights(cluster: Cluster) -> Ints | None:
    """The weight of each node; None if all are alike."""
    return None if cluster.weights is None else np.array(cluster.weights, np.int64)


def _limits(seconds: Floats) -> Ints:
    """Time limits in whole seconds; a year where there is none."""
    limits: Ints = np.ceil(np.minimum(seconds, _YEAR)).astype(np.int64)
    return limits


def _beside(node: Any, requested: Ints, gpus: int, gpus_in_all: int, promised: Ints | None) -> list[int]:
    """What a job gets beside its GPUs on a node, in millionths: its part of the request, else their share."""
    amounts = []
    for resource, request in enumerate(requested.tolist()):
        free = int(node["free"][resource])
        if request < 0:
            kept = 0 if promised is None else int(promised[resource])
            amounts.append(max(min(int(node["share"][resource]) * gpus, free - kept), 0))
        else:
            amounts.append(min(request * gpus // max(gpus_in_all, 1), free))
    return amounts
