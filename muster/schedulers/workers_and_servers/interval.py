"""The frame of all schedulers that count workers and servers: when they decide, for which jobs, and where jobs go.

Sizes of all jobs are decided at the end of each interval (Optimus), and when a job ends or capacity changes. When a job
arrives, running jobs keep their sizes and the waiting ones share what is free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, nan
from typing import Any, ClassVar, Literal

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import MICRO, WHOLE, Bools, Floats, Ints
from muster.schedulers.ageing import LEAST_TURN_SECONDS, among, next_overdue, promoted_now
from muster.schedulers.contract import Decision, Proposal, Snapshot, State, Trigger
from muster.schedulers.honours import REQUESTS, WORKERS_AND_SERVERS
from muster.schedulers.interruption import HORIZON_SECONDS, repays
from muster.schedulers.parts import DURATIONS, check_seconds, setting, settings_of
from muster.schedulers.phases import log_phase
from muster.schedulers.placement.job_columns import JobColumns
from muster.schedulers.reasons import GPU_NOT_PARTED, NO_PLACE, NOT_CONSIDERED, NOT_SELECTED, PLACED
from muster.schedulers.workers_and_servers.settled import Settled
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem, sizing_problem
from muster.schedulers.workers_and_servers.task_placement import held_sizes, place_tasks
from muster.schedulers.workers_and_servers.tasks import NetworkCards, Tasks
from muster.workload.sized import RESOURCES

Accounting = Literal["usage", "reservation"]
ROUNDS = 16
"""A decision is taken again, with more running jobs left as they are, at most so often; then all of them are."""
WAKES = Trigger.ARRIVAL | Trigger.COMPLETION | Trigger.CAPACITY


@dataclass(eq=False)
class SizingSolution:
    """How many workers and servers each job of the question should hold; 0 workers: none of either."""

    workers: Ints
    servers: Ints
    bound: float = nan
    """On the total profit of the jobs that may change."""
    value_of: Callable[[Ints, Ints], float] | None = None
    """The total profit, in the measure of `bound`, of workers and servers of the jobs of the question."""
    last: Bools | None = None
    """Jobs that are placed after all others, because they only use what would stay idle."""
    fastest: bool = False
    """Whether each job has its fastest size, and something of each resource is left."""
    memory: State = None
    notes: tuple[str, ...] = ()

    @classmethod
    def nothing(cls, jobs: int) -> SizingSolution:
        """No workers and servers for so many jobs."""
        return cls(np.zeros(jobs, np.int64), np.zeros(jobs, np.int64))


def not_repaid(question: SizingProblem, answer: SizingSolution) -> Bools:
    """Running jobs whose change does not repay its interruption.

    A job that grows repays its own. Jobs that are stopped or shrunk are repaid by all changes together. The gain is
    seconds of work each second; a job works at 1 with its best size.
    """
    changed = question.changes(np.arange(len(question)), answer.workers, answer.servers) & ~question.pinned
    if not changed.any():
        return changed
    before = _pace(question, question.workers, question.servers)
    gain = _pace(question, answer.workers, answer.servers) - before
    cost = question.interruption_cost
    left = np.minimum(question.remaining * question.best_seconds, HORIZON_SECONDS)
    kept = changed & (gain >= 0) & ~_repaid(gain, cost, left)
    others = changed & ~kept
    if others.any() and not repays(float(gain[~kept].sum()), float(cost[others].sum())):
        return changed
    return kept


def with_least_sizes(question: SizingProblem, urgent: Ints) -> tuple[SizingProblem, Ints]:
    """The problem with these waiting jobs pinned at their least sizes, in this order while they fit; which of them."""
    if not len(urgent):
        return question, urgent
    servers = np.where(question.is_ring, 0, 1)
    each = question.usage(urgent, question.least_workers[urgent], servers[urgent])
    pinned = np.flatnonzero(question.pinned)
    left = question.capacity * (1 + 1e-9)
    left = left - question.usage(pinned, question.workers[pinned], question.servers[pinned]).sum(axis=0)
    granted = np.zeros(len(urgent), bool)
    for turn, usage in enumerate(each):
        if not (usage <= left).all():
            break
        left = left - usage
        granted[turn] = True
    first = urgent[granted]
    workers, all_servers, keeps = question.workers.copy(), question.servers.copy(), question.pinned.copy()
    workers[first], all_servers[first], keeps[first] = question.least_workers[first], servers[first], True
    return replace(question, workers=workers, servers=all_servers, pinned=keeps), first


def within_reservations(question: SizingProblem, served: Bools, added: Bools) -> Bools:
    """Those of the added jobs whose reservations fit beside the jobs served, by arrival; all without reservations."""
    if not question.reserved or not added.any():
        return added
    limits = question.demands.limit[:, : len(RESOURCES)]
    left = question.capacity * (1 + 1e-9) - limits[served].sum(axis=0)
    fitting = added & served
    for at in np.flatnonzero(added & ~served).tolist():
        if (limits[at] <= left).all():
            left = left - limits[at]
            fitting[at] = True
    return fitting


def _pace(question: SizingProblem, workers: Ints, servers: Ints) -> Floats:
    """Seconds of work each second with these sizes; 0 without any."""
    return np.where(workers > 0, question.best_seconds / question.iteration_seconds(workers, servers), 0.0)


def _repaid(gain: Floats, cost: Floats, horizon: Floats) -> Bools:
    """The rule `repays`, job by job."""
    return np.array([repays(*one) for one in zip(gain, cost, horizon, strict=True)], bool)


@dataclass(frozen=True)
class PeriodicScheduler:
    """What they have in common: when they ask, how jobs are charged, how they are placed."""

    name: ClassVar[str] = ""
    slots: ClassVar[tuple[str, ...]] = ("whole scheduler",)
    needs: ClassVar[tuple[str, ...]] = (DURATIONS,)
    honours: ClassVar[frozenset[str]] = frozenset({REQUESTS, WORKERS_AND_SERVERS})
    weighs_interruptions: ClassVar[bool] = False
    """Whether its answers already count what a change costs a running job; else `not_repaid` does."""
    divides_gpus: ClassVar[bool] = False
    """Whether jobs may request a share of a GPU."""

    interval_seconds: float = setting(600.0, "seconds between decisions (Optimus: 10 minutes)")
    accounting: Accounting = setting("usage", "a job is charged what it holds, or its owner's limit")
    promote_after_seconds: float = setting(
        inf, "a job that has waited so long gets its least size before all others until it has had a turn"
    )

    def __post_init__(self) -> None:
        check_seconds(self, "interval_seconds", finite=True)
        if not self.promote_after_seconds >= 0:
            raise ValueError("promote_after_seconds: a number of seconds from 0 on is needed")

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """The sizes from now on; `memory` is what the last answer left."""
        raise NotImplementedError

    def layers_known(self) -> bool:
        """Whether it knows of the layers that communication hides behind."""
        return True

    def describe(self) -> dict[str, Any]:
        """Name and settings, for the record."""
        return {
            "name": self.name,
            "parts": {"admission": self.name, "allocation": self.name, "placement": "even on fewest nodes"},
            "settings": {self.name: settings_of(self)},  # type: ignore[arg-type]
            "needs": list(self.needs),
        }

    def initial(self, cluster: Cluster) -> State:
        """Ask at once; nothing to remember, no job promoted and none settled."""
        return {"next": -inf, "memory": None, "promoted": (), "settled": None, "open_ended": False}

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """At an interval's end size and place all jobs again; in between, and without jobs, everything stays.

        A job that asks for a share of a GPU waits for another scheduler, and keeps what one before this gave it.
        """
        whole = snapshot.table.asked["milli"][snapshot.jobs.index] == WHOLE
        with snapshot.transaction() as transaction:
            jobs = snapshot.jobs if whole.all() else snapshot.jobs.at(whole)
            facts, index = snapshot.table.facts, jobs.index
            codes = np.where(jobs.running, PLACED, np.maximum(facts["reason"][index], NOT_CONSIDERED))
            plan = Proposal(
                transaction, codes, facts["reason_a"][index], facts["reason_b"][index], stable_until=inf
            )
            plan.wake_on = WAKES
            of_whole_gpus = snapshot if jobs is snapshot.jobs else replace(snapshot, jobs=jobs)
            state = self._propose(of_whole_gpus, state, plan)
            if not whole.all():
                unserved = np.where(snapshot.jobs.running, PLACED, GPU_NOT_PARTED)
                of_all = unserved, np.zeros(len(whole)), np.zeros(len(whole))
                for column, known in zip(of_all, (plan.reasons, plan.reason_a, plan.reason_b), strict=True):
                    column[whole] = known
                plan.reasons, plan.reason_a, plan.reason_b = of_all
            return plan.decision(), state

    def _propose(self, snapshot: Snapshot, state: State, plan: Proposal) -> State:
        """Write the proposal for jobs that hold whole GPUs; the state after it."""
        state = self._caught_up(snapshot, state)
        jobs = snapshot.jobs
        promoted = self._promoted(snapshot, state["promoted"])
        urgent = promoted
        if len(promoted):
            urgent = np.flatnonzero(among(jobs.index, promoted) & jobs.waiting)
            urgent = urgent[np.argsort(jobs.last_stop[urgent], kind="stable")]
        if not self.is_due(snapshot, state) and not (len(urgent) and self._some_node_up(snapshot)):
            waits = len(jobs) and snapshot.now < state["next"]
            plan.next_wake = plan.stable_until = state["next"] if waits else inf
            self._wake_for_promotions(snapshot, plan, promoted_wait=False)
            return state
        next_time = state["next"] if snapshot.now < state["next"] else snapshot.now + self.interval_seconds
        settled = self._settle_newcomer(snapshot, plan, state["settled"])
        if settled is not None:
            after = {"next": next_time, "memory": None, "promoted": (), "settled": settled}
            return self._wake_next(snapshot, plan, after)
        question = self.question(snapshot, self.layers_known())
        if not self._may_change(snapshot, state) and not len(urgent):
            question = replace(question, pinned=jobs.running)
        if len(promoted):
            question = replace(
                question, pinned=question.pinned | (among(jobs.index, promoted) & jobs.running)
            )
        question, granted = with_least_sizes(question, urgent)
        if len(granted):  # That a promoted job gets its turn is what the changes are for.
            answer = self.beside_pinned(question, state["memory"])
        else:
            answer, question = self.sizes(question, state["memory"])
        if len(granted) < len(urgent):
            # What is free is left to the promoted job that waits.
            answer.workers[jobs.waiting & ~question.pinned] = 0
        log_phase(snapshot, "keep their size", lambda: question.pinned)
        log_phase(snapshot, "get workers", lambda: answer.workers > 0)
        self.place(snapshot, plan, question, answer, granted)
        log_phase(snapshot, "placed", lambda: plan.reasons == PLACED)
        if answer.value_of is not None:
            free = ~question.pinned
            held = held_sizes(snapshot.ledger.books, snapshot.table.asked, jobs.index[free])
            plan.value, plan.bound = answer.value_of(*held), answer.bound
        plan.notes = answer.notes
        after = {
            "next": next_time,
            "memory": answer.memory,
            "promoted": tuple(promoted.tolist()),
            "settled": self._settled_by(snapshot, question, answer),
        }
        after = self._wake_next(snapshot, plan, after)
        self._wake_for_promotions(snapshot, plan, bool((plan.reasons[urgent] != PLACED).any()))
        return after

    def _wake_next(self, snapshot: Snapshot, plan: Proposal, state: State) -> State:
        """Ask again at the end of the interval, but where all jobs are settled only when something happens."""
        open_ended = state["settled"] is not None and not snapshot.triggers & Trigger.ROUND
        plan.next_wake = plan.stable_until = inf if open_ended else state["next"]
        return {**state, "open_ended": open_ended}

    def _caught_up(self, snapshot: Snapshot, state: State) -> State:
        """The state in which intervals that ended without a question, because all jobs were settled, are over."""
        if not state["open_ended"]:
            return state
        end = state["next"]
        while end < snapshot.now:
            end += self.interval_seconds
        return {**state, "next": end, "open_ended": False}

    def _settled_by(
        self, snapshot: Snapshot, question: SizingProblem, answer: SizingSolution
    ) -> Settled | None:
        """All jobs, if the answer gave each its fastest size and all have a place."""
        if not answer.fastest or question.pinned.any() or self.promote_after_seconds < inf:
            return None
        if not _holds(snapshot, snapshot.jobs.index, answer):
            return None
        usage = question.usage(np.arange(len(question)), answer.workers, answer.servers)
        tasks = _tasks(question, answer, np.ones(len(question), np.bool_))
        return Settled(snapshot.jobs.index, usage, tasks, snapshot.ledger.books.nodes["up"].copy())

    def _settle_newcomer(self, snapshot: Snapshot, plan: Proposal, before: Settled | None) -> Settled | None:
        """Place the only job that waits at its fastest size, where all others are settled; the settled jobs then.

        None, and nothing is written, where some job is not settled then.
        """
        settled = None if before is None else before.among(snapshot)
        waiting = np.flatnonzero(snapshot.jobs.waiting)
        if settled is None or not len(waiting):
            return settled
        if len(waiting) > 1:
            return None
        newcomer = replace(snapshot, jobs=snapshot.jobs.at(waiting))
        question = self.question(newcomer, self.layers_known())
        capacity = np.maximum(question.capacity - settled.usage.sum(axis=0), 0.0)
        answer = self.fastest(replace(question, capacity=capacity))
        if answer is None:
            return None
        usage = question.usage(np.zeros(1, np.int64), answer.workers, answer.servers)
        all_jobs = settled.beside(newcomer.jobs.index, usage, _tasks(question, answer, np.zeros(1, np.bool_)))
        last = np.array([len(all_jobs.jobs) - 1])
        _place_tasks(snapshot, all_jobs.jobs, last, all_jobs.tasks)
        if not _holds(snapshot, newcomer.jobs.index, answer):
            plan.transaction.undo()
            return None
        log_phase(snapshot, "placed beside settled jobs", waiting)
        plan.reasons[waiting] = PLACED
        return all_jobs.all_settled()

    def fastest(self, question: SizingProblem) -> SizingSolution | None:
        """The answer, if it gives each job its fastest size and leaves something of each resource; else None."""
        return None

    def _promoted(self, snapshot: Snapshot, before: tuple[int, ...]) -> Ints:
        """The jobs that get their least size before all others."""
        if self.promote_after_seconds == inf:
            return np.zeros(0, np.int64)
        facts, index = snapshot.table.facts, snapshot.jobs.index
        return promoted_now(facts, index, snapshot.now, before, self.promote_after_seconds)

    def _wake_for_promotions(self, snapshot: Snapshot, plan: Proposal, promoted_wait: bool) -> None:
        """Ask again when the next job has waited too long, and soon while a promoted one waits."""
        if self.promote_after_seconds < inf:
            waiting = snapshot.jobs.index[plan.reasons != PLACED]
            due = next_overdue(snapshot.table.facts, waiting, snapshot.now, self.promote_after_seconds)
            if promoted_wait:
                due = min(due, snapshot.now + LEAST_TURN_SECONDS)
            plan.next_wake = plan.stable_until = min(plan.next_wake, due)

    def sizes(self, question: SizingProblem, memory: State) -> tuple[SizingSolution, SizingProblem]:
        """The answer for all jobs, and the question with all jobs pinned that keep their size for their own sake."""
        answer = self.beside_pinned(question, memory)
        for rounds_left in reversed(range(ROUNDS)):
            if self.weighs_interruptions or not (kept := not_repaid(question, answer)).any():
                break
            kept = kept if rounds_left else (question.workers > 0) & ~question.pinned
            kept = within_reservations(question, question.pinned, kept)
            if not kept.any():
                break
            question = replace(question, pinned=question.pinned | kept)
            answer = self.beside_pinned(question, memory)
        return answer, question

    def beside_pinned(self, question: SizingProblem, memory: State) -> SizingSolution:
        """The answer for all jobs: pinned ones keep their sizes, the others share the rest."""
        if not question.pinned.any():
            return self.answer(question, memory)
        free = ~question.pinned
        answer = self.answer(question.beside_pinned(), memory)
        workers, servers = question.workers.copy(), question.servers.copy()
        workers[free], servers[free] = answer.workers, answer.servers
        last = np.zeros(len(question), bool)
        if answer.last is not None:
            last[free] = answer.last
        return replace(answer, workers=workers, servers=servers, last=last)

    def is_due(self, snapshot: Snapshot, state: State) -> bool:
        """Whether there are jobs and nodes, and an interval is over or something happened."""
        some = len(snapshot.jobs) > 0 and self._some_node_up(snapshot)
        return some and (snapshot.now >= state["next"] or bool(snapshot.triggers & WAKES))

    def _some_node_up(self, snapshot: Snapshot) -> bool:
        return bool(snapshot.ledger.books.nodes["up"].any())

    def _may_change(self, snapshot: Snapshot, state: State) -> bool:
        """Whether running jobs may change now; when a job only arrives they may not."""
        return snapshot.now >= state["next"] or bool(snapshot.triggers & (WAKES & ~Trigger.ARRIVAL))

    def question(self, snapshot: Snapshot, layers_known: bool) -> SizingProblem:
        """What is asked at this moment, under this scheduler's accounting."""
        reserved = self.accounting == "reservation"
        return sizing_problem(snapshot, layers_known, reserved, self.interval_seconds)

    def place(
        self,
        snapshot: Snapshot,
        plan: Proposal,
        question: SizingProblem,
        answer: SizingSolution,
        urgent: Ints,
    ) -> None:
        """Write the changes and the reasons; the `urgent` jobs come first, in this order.

        Where running jobs that keep their size leave no place for an urgent one, they are placed again behind it; if
        even that does not do, what is free is left to it.
        """
        jobs, mark = snapshot.jobs, plan.transaction.mark()
        unchanged = (answer.workers == question.workers) & (answer.servers == question.servers) & jobs.running
        usage = question.usage(np.arange(len(question)), answer.workers, answer.servers)
        demand = question.shares(usage)
        last = np.zeros(len(question), bool) if answer.last is None else answer.last
        turn = np.full(len(question), len(urgent))
        turn[urgent] = np.arange(len(urgent))
        # Rings and gangs want to be close together: the largest come while there is room for that.
        order = np.lexsort((demand * self.placed_first(question), ~question.is_ring, last, turn))
        wanted = answer.workers > 0
        for settled in (unchanged, unchanged & question.pinned):
            plan.transaction.undo(mark)
            self._place_in_order(snapshot, plan, question, answer, order, settled)
            if (snapshot.ledger.books.heads[jobs.index[urgent]] >= 0).all():
                break
        else:
            plan.transaction.undo(mark)
            answer.workers[jobs.waiting & ~question.pinned] = 0
            self._place_in_order(snapshot, plan, question, answer, order, unchanged)
        holds = snapshot.ledger.books.heads[jobs.index] >= 0
        plan.reasons[:] = np.where(holds, PLACED, np.where(wanted, NO_PLACE, NOT_SELECTED))
        lost = ~holds & wanted
        plan.reason_a[lost] = (question.least_workers * question.demands.worker[:, 0])[lost]
        plan.reason_b[lost] = snapshot.ledger.free()[0]

    def _place_in_order(
        self,
        snapshot: Snapshot,
        plan: Proposal,
        question: SizingProblem,
        answer: SizingSolution,
        order: Ints,
        settled: Bools,
    ) -> None:
        """Place all jobs but the settled ones.

        A job that was stopped or shrunk keeps its place if what it frees is used by no other: the others are then
        placed again around it.
        """
        running, rounds, mark = snapshot.jobs.running, 0, plan.transaction.mark()
        while (in_vain := self._in_vain(snapshot, question, answer, order, settled)).any():
            rounds += 1
            if rounds == ROUNDS:
                in_vain = within_reservations(question, answer.workers > 0, running & ~settled)
            plan.transaction.undo(mark)
            settled = settled | in_vain
            answer.workers[in_vain] = question.workers[in_vain]
            answer.servers[in_vain] = question.servers[in_vain]

    def placed_first(self, question: SizingProblem) -> Ints:
        """1 for the jobs that are placed by rising demand, -1 by falling: rings and gangs (Optimus 4.2: rising)."""
        return np.where(question.is_ring, -1, 1)

    def _in_vain(
        self, snapshot: Snapshot, question: SizingProblem, answer: SizingSolution, order: Ints, kept: Bools
    ) -> Bools:
        """Place all jobs; which of them were stopped or shrunk in vain and may hold again what they held."""
        tasks = _tasks(question, answer, kept)
        in_vain = _place_tasks(snapshot, snapshot.jobs.index, order, tasks)
        return within_reservations(question, answer.workers > 0, in_vain)


def _holds(snapshot: Snapshot, jobs: Ints, answer: SizingSolution) -> bool:
    """Whether these jobs hold what the answer gives them: where network cards are full, a job gets less."""
    held = held_sizes(snapshot.ledger.books, snapshot.table.asked, jobs)
    return np.array_equal(held, (answer.workers, answer.servers))


def _tasks(question: SizingProblem, answer: SizingSolution, kept: Bools) -> Tasks:
    """What is to be placed; the jobs of `kept` keep what they hold."""
    needs = np.empty((len(question), 2, len(RESOURCES)))
    needs[:, 0] = question.demands.worker[:, : len(RESOURCES)]
    needs[:, 1] = question.demands.server[:, : len(RESOURCES)]
    return Tasks(
        answer.workers,
        answer.servers,
        question.least_workers,
        np.rint(needs * MICRO).astype(np.int64),
        question.is_ring,
        kept,
    )


def _place_tasks(snapshot: Snapshot, jobs: Ints, order: Ints, tasks: Tasks) -> Bools:
    """Place these jobs, all that there are; which of them were stopped or shrunk in vain."""
    cluster = snapshot.cluster
    cards = NetworkCards(np.rint(cluster.nic_gb_per_s * MICRO).astype(np.int64), cluster.rack_of_node)
    held = held_sizes(snapshot.ledger.books, snapshot.table.asked, jobs)
    most = int((tasks.workers + tasks.servers + held[0] + held[1]).sum())
    # Rows go by tasks, because servers hold no GPUs: those to be placed and, for what is put back, those held before.
    books = snapshot.ledger.reserve(2 * most + len(jobs), 4 * len(jobs))
    columns = JobColumns(snapshot.table.asked, jobs, snapshot.table.node_allowed)
    in_vain: Bools = place_tasks(books, columns, order, tasks, cards)
    return in_vain
