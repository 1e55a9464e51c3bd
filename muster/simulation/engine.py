"""The simulator's loop: jump to the next moment at which something may change, let it happen, ask the scheduler.

All events of one instant come together, in a fixed order: completions, lease ends, releases, failures and
repairs, arrivals, timers. With rounds, decisions are taken at ticks only, and a tick is skipped while the
last plan says that it holds.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, inf, isnan

import numpy as np

from muster.cluster import Cluster
from muster.cluster import ledger_arrays as b
from muster.cluster.arrays import grow
from muster.cluster.ledger import Ledger, node_allocations
from muster.cluster.ledger_steps import bring_up, end_release, take_down
from muster.cluster.structured import ColumnT, Structured, zero_records
from muster.runtime import lifecycle as keep
from muster.runtime.allocation_lifecycle import (
    HELD,
    HELD_ROWS,
    IN_TURNS,
    PENDING_INTERVAL,
    RELEASES,
    RESTART_MODEL,
    HeldArray,
    LifecycleReport,
    PendingArray,
    RestartModel,
)
from muster.runtime.checked_decisions import check_decision
from muster.runtime.records import DECISIONS
from muster.schedulers.compiled import compiled_form
from muster.schedulers.composed_core import CompiledScheduler
from muster.schedulers.contract import (
    Bools,
    Decision,
    Floats,
    Ints,
    Jobs,
    Scheduler,
    Snapshot,
    Trigger,
    asked_for_decision,
)
from muster.schedulers.reasons import NOT_CONSIDERED
from muster.schedulers.user_code import has_own_code
from muster.simulation.event_loop import EventLoop
from muster.simulation.failures import FailureClock
from muster.simulation.network import NetworkOfRun
from muster.simulation.options import FIRST_ARRIVAL, Options
from muster.simulation.rules import WorkInBlocks, WorkLaw
from muster.simulation.variable_batches import VariableBatches
from muster.speed.demands import ResourceProfiles
from muster.speed.input_pipeline import ModelTable
from muster.speed.network.forms import PlacementShapes
from muster.workload.jobs import CANCELLED, COMPLETED, FUTURE, REFUSED, RUNNING, TIMED_OUT, WAITING, JobTable

_FRUITLESS_AT_MOST = 1000
"""Decisions in a row that start nothing while nothing runs and no job is to come, before a run is given up."""
_REPEATS_AT_MOST = 1000
"""Decisions in a row at one moment that change nothing and that no event calls for, before the plan is refused."""
_REPAIRS_AT_LEAST = 100
"""Times as long as a repair takes they last at least: machines that come back may end the waiting."""
_COPIED_BYTES = 64 * 2**20
"""Memory of more bytes than this is mapped elsewhere when it grows; what is smaller may be copied."""
_OFFER_AGAIN_SECONDS = 60.0
"""Until GPUs are offered again, where offers are events of their own and nothing else is to come."""
_PROGRESS_EVERY = 256
"""Steps between two calls of the progress function."""


class PlanRefused(Exception):
    """A scheduler's plan that breaks a promise every plan must keep."""


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    simulated_seconds: float
    jobs_done: int
    jobs: int


@dataclass(frozen=True)
class World:
    """What is simulated: the jobs, the cluster and how fast jobs really run on it."""

    table: JobTable
    cluster: Cluster
    models: ModelTable
    network: NetworkOfRun | None = None
    blocks: WorkInBlocks | None = None
    work: WorkLaw | None = None
    batches: VariableBatches | None = None


class SimulationEngine:
    """One run over one job table."""

    def __init__(
        self,
        world: World,
        scheduler: Scheduler,
        options: Options,
        measured: Bools,
        *,
        ask_every_round: bool = False,
    ) -> None:
        table, cluster = world.table, world.cluster
        self.table = table
        self.ledger = Ledger(cluster, len(table))
        self.now = 0.0
        self.decisions: Floats = np.zeros((0, len(DECISIONS)))
        self._decisions: list[tuple[float, ...]] = []
        self.decision_seconds: Floats = np.zeros(0)
        self._decision_seconds: list[float] = []
        self.noted: Counter[str] = Counter()
        self._asked, self._facts = table.asked, table.facts
        self._models = world.models
        self._wants = ResourceProfiles(world.models, self.ledger.books.nodes)
        self._network, self._blocks, self._work = world.network, world.blocks, world.work
        self._batches = world.batches
        self._offers: list[float] | None = [] if options.rules.offers else None
        """When GPUs will be offered, a heap; None: whenever the scheduler asks for it."""
        self._forms = _shapes_of(world.network, cluster)
        self._scheduler = scheduler
        self._options = options
        self._measured = measured
        self._ask_every_round = ask_every_round
        self._state = scheduler.initial(cluster)
        self._arrivals = np.flatnonzero(self._facts["state"] == FUTURE)
        self._arrived = 0
        self._arrival_times: list[float] = self._asked["submit"][self._arrivals].tolist()
        wanted = np.flatnonzero(measured[self._arrivals])
        self._last_measured_arrival = int(wanted[-1]) + 1 if len(wanted) else 0
        self._active = np.zeros(len(table), np.int64)
        self._active_count = 0
        self._before = np.full(len(table), -2)
        self._outcome = LifecycleReport(
            zero_records(1024, HELD), np.zeros(0, np.int64), np.zeros(6, np.int64)
        )
        self._held_count = 0
        self._explained: PendingArray = zero_records(1024, PENDING_INTERVAL)
        self._explained_count = 0
        self._releases: list[tuple[float, int]] = []
        begin = next(iter(self._arrival_times), 0.0)
        self._failures = FailureClock(options.failures, len(cluster.nodes), options.seed, begin)
        self._laws = _restart_model(options)
        self.ledger.books.totals[b.DELAYED] = options.release_seconds_per_gpu > 0
        self._round = options.round_seconds
        self._origin = self._round_origin()
        self._pending = 0  # triggers since the last decision
        self._stable_until = self._next_wake = -inf
        self._wake_on = Trigger.ALL
        self._last_tick = -1
        self._fruitless = 0
        self._decided_at = -inf
        self._repeats = 0
        self._patient_until = 0.0
        self._turns = False

    @property
    def patience(self) -> float:
        """Seconds that a run without hope goes on: machines that come back may end the waiting."""
        failures = self._options.failures
        return _REPAIRS_AT_LEAST * failures.repair_seconds if failures else 0.0

    def _round_origin(self) -> float:
        origin = self._options.round_origin
        if origin == FIRST_ARRIVAL:
            assert self._round is not None
            return ceil(self._arrival_times[0] / self._round) * self._round if self._arrival_times else 0.0
        return float(origin)

    def run(self, progress: Callable[[Progress], None] | None = None) -> None:
        """Until the measured jobs are done, or nothing can happen any more."""
        compiled = self._compiled_scheduler()
        if compiled is None:
            self._run(progress)
            self.decisions = np.array(self._decisions, np.float64).reshape(-1, len(DECISIONS))
            self.decision_seconds = np.array(self._decision_seconds)
            return
        loop = EventLoop(self, compiled)
        loop.run(progress)
        self.decisions, self.decision_seconds = loop.decisions(), loop.decision_seconds()

    def _compiled_scheduler(self) -> CompiledScheduler | None:
        """The scheduler, if it is compiled and nothing in this run needs Python beside it."""
        in_python = (self._network, self._blocks, self._work, self._batches)
        if any(part is not None for part in in_python) or self._ask_every_round:
            return None
        jobs = Jobs(self.table, np.arange(len(self.table)), 0.0)
        snapshot = Snapshot(
            0.0, 0, jobs, self.table, self.ledger, self._wants, self._forms, self._options.resize_restarts
        )
        return compiled_form(self._scheduler, snapshot)

    def make_room(self, rows: int, entries: int, held: int, explained: int, releases: int) -> None:
        """Let the arrays that the compiled loop writes have room for so much."""
        self.ledger.reserve(rows, entries)
        if held > len(self._outcome.held):
            _grow(self._outcome.held, held)
        if releases > len(self._outcome.releases):
            self._outcome = self._outcome._replace(releases=np.zeros(2 * releases, np.int64))
        if explained > len(self._explained):
            _grow(self._explained, explained)

    def take_report(self, now: float, arrived: int, active: int, held: int, explained: int) -> None:
        """How far the compiled loop is."""
        self.now, self._arrived, self._active_count = now, arrived, active
        self._held_count, self._explained_count = held, explained

    def _run(self, progress: Callable[[Progress], None] | None) -> None:
        steps = 0
        while True:
            finish, lease_end, last = keep.next_times(
                self._facts, self._active[: self._active_count], self._measured
            )
            if self._arrived < self._last_measured_arrival:
                last = inf
            elif last == -inf:
                break
            now = min(self._next_event(finish, lease_end), last)
            if now == inf:
                break
            if self._happen(now, finish, lease_end) and now < last:
                self._decide(now)
            if self._fruitless > _FRUITLESS_AT_MOST and now > self._patient_until:
                break
            steps += 1
            if progress is not None and steps % _PROGRESS_EVERY == 0:
                progress(self.progress())
        self._close()

    def progress(self) -> Progress:
        """How far the run is."""
        return Progress(self.now, self._arrived - self._active_count, len(self._arrivals))

    # When

    def _next_event(self, finish: float, lease_end: float) -> float:
        """The next moment at which something happens or the scheduler is to be asked."""
        arrival = self._arrival_times[self._arrived] if self._arrived < len(self._arrival_times) else inf
        release = self._releases[0][0] if self._releases else inf
        change = self._failures.next_time() if self._active_count or arrival < inf else inf
        wake_on = self._wake_on
        if self._offers is not None:
            soonest = min(arrival, finish, lease_end, self._offers[0] if self._offers else inf)
            if soonest == inf and self._active_count:
                soonest = self.now + _OFFER_AGAIN_SECONDS
                heapq.heappush(self._offers, soonest)
            return max(self.now, min(soonest, self._next_wake))
        # A completion that neither a neighbour nor the scheduler feels is caught up with later, at its own time.
        felt = finish if self._turns or (self._network is not None and self._network.contention) else inf
        felt = min(felt, self._next_change_of_speed(finish))
        if self._round is None:
            felt = min(felt, finish) if wake_on & Trigger.COMPLETION else felt
            return max(self.now, min(arrival, felt, lease_end, release, change, self._next_wake))
        ask = -inf if self._pending & wake_on else min(self._stable_until, self._next_wake)
        if self._ask_every_round and (self._active_count or self._arrived):
            ask = -inf
        if wake_on & Trigger.ARRIVAL:
            ask = min(ask, arrival)
        if wake_on & Trigger.COMPLETION:
            ask = min(ask, finish)
        if wake_on & Trigger.LEASE_END:
            ask = min(ask, lease_end)
        if ask < inf:
            ask = self._tick(max(ask, self.now, arrival if not self._active_count else -inf))
        return max(self.now, min(ask, felt, release, change))

    def _next_change_of_speed(self, finish: float) -> float:
        """When a running job's speed changes by itself, or ends where a law of the run says how jobs work."""
        if self._batches is not None:
            return self._batches.next_change()
        return inf if self._work is None else min(finish, self._work.next_change())

    def _tick(self, moment: float) -> float:
        """The first tick from a moment on that no decision has been taken at."""
        assert self._round is not None
        number = floor((moment - self._origin) / self._round)
        if self._origin + number * self._round < moment:
            number += 1
        return self._origin + max(number, self._last_tick + 1, 0) * self._round

    # What happens

    def _happen(self, now: float, finish: float, lease_end: float) -> bool:
        """Let everything up to now happen; whether the scheduler is to be asked."""
        self.now = now
        if self._offers is not None:
            return self._happen_with_offers(now, finish, lease_end, self._offers)
        triggers = 0
        if finish <= now:
            triggers |= Trigger.COMPLETION
            self._complete(now)
        self._change_speeds(now)
        if lease_end <= now:
            triggers |= Trigger.LEASE_END
        while self._releases and self._releases[0][0] <= now:
            end_release(self.ledger.books, heapq.heappop(self._releases)[1])
            triggers |= Trigger.CAPACITY
        for node, repaired in self._failures.due(now):
            self._change_node(node, repaired, now)
            triggers |= Trigger.CAPACITY
        if self._arrive(now):
            triggers |= Trigger.ARRIVAL
        self._pending |= triggers
        if self._round is None:
            timer = self._next_wake <= now
            self._pending |= Trigger.TIMER if timer else 0
            return timer or bool(self._pending & self._wake_on)
        number = round((now - self._origin) / self._round)
        if number <= self._last_tick or self._origin + number * self._round != now:
            return False
        due = min(self._stable_until, self._next_wake) <= now or self._ask_every_round
        if due or self._pending & self._wake_on:
            self._last_tick = number
            self._pending |= Trigger.ROUND
            return True
        return False

    def _happen_with_offers(self, now: float, finish: float, lease_end: float, offers: list[float]) -> bool:
        """Arrivals, then the stops of blocks; whether it is time for an offer, of which each is a decision of its own.

        What stops is free at once; its own offer comes a second a GPU later, or at once if it gave up its lease early.
        """
        arrived, any_free = self._arrived, bool(self.ledger.books.totals[b.GPU] > 0)
        if self._arrive(now) and any_free:
            for _ in range(self._arrived - arrived):
                heapq.heappush(offers, now)
        active = self._active[: self._active_count]
        if min(finish, lease_end) <= now:
            running = active[self._facts["state"][active] == RUNNING]
            done = running[self._facts["finish"][running] <= now]
            stopping = running[self._facts["lease_end"][running] <= now]
            self._complete(now)
            for job in done.tolist():
                heapq.heappush(offers, now + float(self._asked["gpus"][job]))
            for job in stopping.tolist():
                heapq.heappush(offers, now + self._end_lease(job, now))
        if offers and offers[0] <= now:
            heapq.heappop(offers)
            self._pending |= Trigger.CAPACITY
        elif self._next_wake <= now:
            self._pending |= Trigger.TIMER
        else:
            return False
        return True

    def _end_lease(self, job: int, now: float) -> float:
        """Stop a job whose lease ends; seconds until what it held is offered."""
        outcome = self._room()
        keep.end_lease(self.ledger.books, self._facts, job, now, self._laws, outcome)
        self._filled(outcome, now)
        if self._blocks is not None and self._blocks.stop(job):
            return 0.0
        return float(self._asked["gpus"][job])

    def _arrive(self, now: float) -> bool:
        first = self._arrived
        times = self._arrival_times
        while self._arrived < len(times) and times[self._arrived] <= now:
            self._arrived += 1
        if self._arrived == first:
            return False
        jobs = self._arrivals[first : self._arrived]
        self._active[self._active_count : self._active_count + len(jobs)] = jobs
        self._active_count += len(jobs)
        self._facts["state"][jobs] = WAITING
        self._facts["reason"][jobs] = NOT_CONSIDERED
        self._facts["reason_since"][jobs] = self._asked["submit"][jobs]
        return True

    def _complete(self, now: float) -> None:
        active = self._active[: self._active_count]
        outcome = self._room()
        self._active_count = int(
            keep.complete_due(self.ledger.books, self._asked, self._facts, active, now, self._laws, outcome)
        )
        self._filled(outcome, now)
        if self._turns:
            self._refresh_turns(now)
        self._refresh_neighbours(now)

    def _change_node(self, node: int, repaired: bool, now: float) -> None:
        books = self.ledger.books
        if repaired:
            bring_up(books, node)
            return
        outcome = self._room()
        active = self._active[: self._active_count]
        keep.lose_node(books, self._facts, active, node, now, self._laws, outcome)
        take_down(books, node)
        self._filled(outcome, now)
        self._refresh_neighbours(now)

    # Decisions

    def _decide(self, now: float) -> None:
        index = self._active[: self._active_count].copy()
        jobs = Jobs(self.table, index, now)
        snapshot = Snapshot(
            now,
            self._pending,
            jobs,
            self.table,
            self.ledger,
            self._wants,
            self._forms,
            self._options.resize_restarts,
            None if self._work is None else self._work.size_speeds,
        )
        self._pending = 0
        began = time.perf_counter()
        plan, self._state = asked_for_decision(self._scheduler, snapshot, self._state)
        if has_own_code(self._scheduler):
            self._check(plan, snapshot)
        self._decision_seconds.append(time.perf_counter() - began)
        self.noted.update(plan.notes)
        self._check_for_standstill(self._apply(plan, index, now), snapshot.triggers, now)
        self._stable_until, self._next_wake = plan.stable_until, plan.next_wake
        self._wake_on = plan.wake_on

    def _check(self, plan: Decision, snapshot: Snapshot) -> None:
        try:
            check_decision(plan, snapshot)
        except ValueError as error:
            raise PlanRefused(f"{self._scheduler.name}: {error}") from error

    def _check_for_standstill(self, changed: bool, triggers: int, now: float) -> None:
        """Refuse a plan if its scheduler asks for another decision at the same moment again and again."""
        own = not triggers & ~(Trigger.TIMER | Trigger.LEASE_END)
        self._repeats = self._repeats + 1 if own and not changed and now == self._decided_at else 0
        self._decided_at = now
        if self._repeats > _REPEATS_AT_MOST:
            raise PlanRefused(
                f"{self._scheduler.name}: {self._repeats} decisions in a row at {now:g} s change nothing, and the "
                f"plan asks for another one at the same moment (next_wake, or a lease that has ended)"
            )

    def _apply(self, plan: Decision, index: Ints, now: float) -> bool:
        """Carry a plan out; whether any job starts, stops or changes."""
        books = self.ledger.books
        totals = books.totals
        if len(plan.changes.jobs):
            books = self.ledger.reserve(len(plan.changes.rows), 2 * len(plan.changes.jobs))
            refusal, broken = keep.place_changes(books, self._asked, *plan.changes)
            if refusal < 0 or broken >= 0:
                raise self._refused(plan, broken)
            if self._network is not None:
                self._network.expose_placed(books, self._asked, self._facts)
            outcome = self._room()
            keep.settle_journal(
                books, self._asked, self._facts, self._models, now, self._laws, self._before, outcome
            )
            self._filled(outcome, now)
            self._choose_batches(plan.changes.jobs, now)
            if self._turns or outcome.counts[IN_TURNS]:
                self._refresh_turns(now)
            self._refresh_neighbours(now)
            self._rate_by_law(plan.changes.jobs, now)
            started, stopped, changed = outcome.counts[:3].tolist()
        else:
            started = stopped = changed = 0
        if started or stopped or changed or not isnan(plan.bound):
            waiting = int(np.count_nonzero(plan.reasons))
            row = (now, len(index) - waiting, waiting, started, stopped, changed, *totals[:4].tolist())
            self._decisions.append((*row, plan.value, plan.bound))
        for job, end in plan.lease_ends.items():
            if self._blocks is None:
                self._facts["lease_end"][job] = end
            else:
                self._blocks.start(job, now, end, self.ledger)
        self._note_reasons(plan.reasons, plan.reason_a, plan.reason_b, index, now)
        self._cancel(plan.cancelled, now)
        idle = not started and self._arrived == len(self._arrivals) and len(index) > 0 and not self._releases
        self._fruitless = self._fruitless + 1 if idle and plan.reasons.all() else 0
        if self._fruitless == 1:
            self._patient_until = now + self.patience
        return bool(started or stopped or changed)

    def _cancel(self, cancelled: tuple[int, ...], now: float) -> None:
        """End jobs that a plan has stopped for good."""
        if not cancelled:
            return
        jobs, facts = np.array(cancelled, np.int64), self._facts
        if (facts["state"][jobs] != WAITING).any():
            raise PlanRefused(f"{self._scheduler.name}: a job that it cancels holds something or has ended")
        nothing_more = np.zeros(len(jobs))
        self._note_reasons(nothing_more.astype(np.int64), nothing_more, nothing_more, jobs, now)
        facts["state"][jobs], facts["finish"][jobs] = CANCELLED, now
        left = self._active[: self._active_count]
        left = left[~np.isin(left, jobs)]
        self._active_count = len(left)
        self._active[: self._active_count] = left

    def _refused(self, decision: Decision, broken: int) -> PlanRefused:
        """What is wrong with changes that cannot be carried out: a gang that is not whole, or no room."""
        name = self._scheduler.name
        if broken < 0:
            return PlanRefused(f"{name}: the allocations of its decision do not fit together")
        at = decision.changes.jobs.tolist().index(broken)
        first, last = decision.changes.first[at : at + 2]
        held = sum(share.gpus for share in node_allocations(decision.changes.rows[first:last]))
        return PlanRefused(
            f"{name}: job {self.table.ids[broken]} would hold {held:g} GPUs; a gang is whole or absent"
        )

    def _note_reasons(self, codes: Ints, a: Floats, b_: Floats, index: Ints, now: float) -> None:
        if self._explained_count + len(index) > len(self._explained):
            _grow(self._explained, self._explained_count + len(index))
        self._explained_count += int(
            keep.note_reasons(
                self._facts,
                index,
                codes,
                a,
                b_,
                now,
                self._explained[self._explained_count :],
            )
        )

    def _refresh_turns(self, now: float) -> None:
        """Time-slice groups changed: their members' speed goes by how many they are."""
        active = self._active[: self._active_count]
        keep.refresh_turns(self.ledger.books, self._asked, self._facts, active, self._models, now, self._laws)
        self._turns = bool((self.ledger.books.devices["group"] >= 0).any())

    def _change_speeds(self, now: float) -> None:
        """Give the running jobs another speed for which the law of the run states one from now on."""
        if self._work is not None:
            self._rate_by_law(self._work.due(now), now)
        if self._batches is not None and len(due := self._batches.due(now)):
            self._choose_batches(due, now)
            self._refresh_neighbours(now)

    def _choose_batches(self, jobs: Ints, now: float) -> None:
        """Give jobs whose batch varies the one with which they advance fastest on what they hold."""
        if self._batches is not None:
            self._batches.choose(jobs, self.ledger, now, self._laws)

    def _rate_by_law(self, jobs: Ints, now: float) -> None:
        """Settle jobs and give them the speed that the law of the run states, where it has one of its own."""
        if self._work is None:
            return
        for job in jobs.tolist():
            if self.ledger.holds(job):
                keep.settle(self._facts, job, now, self._laws)
            self._work.rate(job, now, self.ledger)

    def _refresh_neighbours(self, now: float) -> None:
        """After jobs came or left, the others on the same uplinks go slower or faster."""
        if self._network is None or not self._network.contention:
            return
        books = self.ledger.books
        active = self._active[: self._active_count]
        jobs, exposed = self._network.among_neighbours(books, self._asked, self._facts, active)
        keep.expose(books, self._asked, self._facts, jobs, exposed, self._models, now, self._laws)

    # Writing down

    def _room(self) -> LifecycleReport:
        """Counts at 0, and room for all that is held now to end."""
        at_most = int(self.ledger.books.totals[b.ROWS_USED])
        held, releases, counts = self._outcome
        if self._held_count + at_most > len(held):
            _grow(held, self._held_count + at_most)
        if self._options.release_seconds_per_gpu and len(releases) < self._active_count:
            self._outcome = self._outcome._replace(releases=np.zeros(2 * self._active_count, np.int64))
        counts[:] = 0
        counts[HELD_ROWS] = self._held_count
        return self._outcome

    def _filled(self, outcome: LifecycleReport, now: float) -> None:
        _, releases, counts = outcome
        self._held_count = int(counts[HELD_ROWS])
        if not counts[RELEASES]:
            return
        for chain in releases[: counts[RELEASES]].tolist():
            gpus = sum(share.gpus for share in self.ledger.shares(chain))
            fact = self._facts[self.ledger.books.rows[chain]["job"]]
            # With rounds a completion is noticed at the tick after it.
            stopped = float(fact["finish"]) if fact["state"] in (COMPLETED, TIMED_OUT) else now
            heapq.heappush(self._releases, (stopped + gpus * self._options.release_seconds_per_gpu, chain))

    def _close(self) -> None:
        """Settle what still runs and write down what is still held or explained."""
        for job in self._active[: self._active_count].tolist():
            if self.ledger.holds(job):
                keep.settle(self._facts, job, self.now, self._laws)
                outcome = self._room()
                keep.close_job(self.ledger.books, job, self.now, outcome)
                self._held_count = int(outcome.counts[HELD_ROWS])
        left = self._active[: self._active_count]
        nothing_more = np.zeros(len(left), np.int64)
        self._note_reasons(nothing_more, np.zeros(len(left)), np.zeros(len(left)), left, self.now)

    def held(self) -> HeldArray:
        """Stretches of holding, in the order in which they ended."""
        return self._outcome.held[: self._held_count]

    def explained(self) -> PendingArray:
        """Stretches of waiting, in the order in which they ended."""
        return self._explained[: self._explained_count]

    def unfinished(self) -> int:
        """Jobs that the run left undone."""
        states = self._facts["state"]
        ended = np.isin(states, (COMPLETED, REFUSED, TIMED_OUT, CANCELLED))
        return int(np.count_nonzero(~ended & self._measured))


def _restart_model(options: Options) -> RestartModel:
    """What a restart costs and saves in a run with these options."""
    model: RestartModel = zero_records(1, RESTART_MODEL)
    model["resize_restarts"] = options.resize_restarts
    model["end_at_limit"] = options.end_at_limit
    model["checkpoint_every"] = options.checkpoint_seconds if options.failures else inf
    if options.rules.whole_iterations:
        model["whole_round"] = options.round_seconds
    return model


def _grow(array: Structured[ColumnT], needed: int) -> None:
    """Make an array longer in place: one that is copied meanwhile to twice its length, a larger one by a third."""
    more = len(array) if array.nbytes < _COPIED_BYTES else len(array) // 3
    grow(array, max(needed, len(array) + more))


def _shapes_of(network: NetworkOfRun | None, cluster: Cluster) -> PlacementShapes:
    """How fast the places of a run are."""
    if network is None:
        return PlacementShapes(None, cluster)
    return PlacementShapes(network.speed, cluster, contention=network.contention)
