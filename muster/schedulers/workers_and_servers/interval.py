"""The frame of all schedulers that count workers and servers: a question to all jobs at every interval (Optimus)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isnan, nan
from typing import Any, ClassVar, Literal

import numpy as np

from muster.cluster import Cluster
from muster.cluster.books import MICRO, WHOLE, Ints
from muster.schedulers.contract import Plan, State, Trigger, View
from muster.schedulers.honours import REQUESTS
from muster.schedulers.parts import DURATIONS, setting, settings_of
from muster.schedulers.reasons import GPU_NOT_PARTED, NO_PLACE, NOT_CONSIDERED, NOT_SELECTED, PLACED
from muster.schedulers.workers_and_servers.question import Question, held_sizes, question_of
from muster.schedulers.workers_and_servers.seating import seat
from muster.workload.sized import RESOURCES

Accounting = Literal["usage", "reservation"]


@dataclass(eq=False)
class Answer:
    """How many workers and servers each job of the question should hold; 0 workers: none of either."""

    workers: Ints
    servers: Ints
    bound: float = nan
    """On the total profit."""
    hysteresis: float = 0.0
    """By which that profit counts a change of size dearer than its restart."""
    memory: State = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AtIntervals:
    """What they have in common: when they ask, how jobs are charged, how they are seated."""

    name: ClassVar[str] = ""
    slots: ClassVar[tuple[str, ...]] = ("whole scheduler",)
    needs: ClassVar[tuple[str, ...]] = (DURATIONS,)
    honours: ClassVar[frozenset[str]] = frozenset({REQUESTS})

    interval_seconds: float = setting(600.0, "seconds between decisions (Optimus: 10 minutes)")
    accounting: Accounting = setting("usage", "a job is charged what it holds, or its owner's limit")
    restart_seconds: float = setting(30.0, "what a running job is thought to lose when its size changes")

    def __post_init__(self) -> None:
        if not 0 < self.interval_seconds < inf:
            raise ValueError("interval_seconds is a number of seconds above 0")
        if not 0 <= self.restart_seconds < inf:
            raise ValueError("restart_seconds is a number of seconds from 0 on")

    def answer(self, question: Question, memory: State) -> Answer:
        """The sizes from now on; `memory` is what the last answer left."""
        raise NotImplementedError

    def layers_known(self) -> bool:
        """Whether it knows of the layers that communication hides behind."""
        return True

    def describe(self) -> dict[str, Any]:
        """Name and settings, for the record."""
        return {
            "name": self.name,
            "parts": {"selection": self.name, "allocation": self.name, "placement": "even on fewest nodes"},
            "settings": {self.name: settings_of(self)},  # type: ignore[arg-type]
            "needs": list(self.needs),
        }

    def initial(self, cluster: Cluster) -> State:
        """Ask at once; nothing to remember."""
        return {"next": -inf, "memory": None}

    def decide(self, view: View, state: State) -> tuple[Plan, State]:
        """At an interval's end size and seat everybody anew; in between, and without jobs, everything stays.

        A job that asks for a share of a GPU waits for another scheduler.
        """
        whole = view.table.asked["milli"][view.jobs.index] == WHOLE
        if whole.all():
            return self._decide(view, state)
        plan, state = self._decide(replace(view, jobs=view.jobs.at(whole)), state)
        told = np.full(len(whole), GPU_NOT_PARTED), np.zeros(len(whole)), np.zeros(len(whole))
        for of_all, known in zip(told, (plan.reasons, plan.reason_a, plan.reason_b), strict=True):
            of_all[whole] = known
        plan.reasons, plan.reason_a, plan.reason_b = told
        return plan, state

    def _decide(self, view: View, state: State) -> tuple[Plan, State]:
        """Of jobs that hold whole GPUs."""
        jobs = view.jobs
        facts = view.table.facts[jobs.index]
        codes = np.where(jobs.running, PLACED, np.maximum(facts["reason"], NOT_CONSIDERED))
        plan = Plan(
            view.draft(),
            codes,
            facts["reason_a"],
            facts["reason_b"],
            stable_until=inf,
            wake_on=Trigger.ARRIVAL,
        )
        if not self.is_due(view, state):
            plan.next_wake = plan.stable_until = state["next"] if len(jobs) else inf
            return plan, state
        question = self.question(view, self.layers_known())
        answer = self.answer(question, state["memory"])
        self._seat(view, plan, question, answer)
        if not isnan(answer.bound):
            held = held_sizes(view.ledger.books, view.table.asked, jobs.index)
            plan.value, plan.bound = question.value(*held, answer.hysteresis), answer.bound
        plan.notes = answer.notes
        next_time = view.now + self.interval_seconds
        plan.next_wake = plan.stable_until = next_time
        return plan, {"next": next_time, "memory": answer.memory}

    def is_due(self, view: View, state: State) -> bool:
        """Whether there are jobs and an interval is over."""
        return len(view.jobs) > 0 and view.now >= state["next"]

    def question(self, view: View, layers_known: bool) -> Question:
        """What is asked at this moment, under this scheduler's accounting."""
        reserved = self.accounting == "reservation"
        return question_of(view, layers_known, reserved, self.interval_seconds, self.restart_seconds)

    def _seat(self, view: View, plan: Plan, question: Question, answer: Answer) -> None:
        """Write the draft and the reasons."""
        jobs, table = view.jobs, view.table
        answer.workers[question.pinned] = question.workers[question.pinned]
        answer.servers[question.pinned] = question.servers[question.pinned]
        kept = (answer.workers == question.workers) & (answer.servers == question.servers) & jobs.running
        usage = question.usage(np.arange(len(question)), answer.workers, answer.servers)
        demand = question.shares(usage)
        # Rings and gangs want to be close together: the largest come while there is room for that.
        order = np.lexsort((np.where(question.is_ring, -demand, demand), ~question.is_ring))
        needs = np.stack([question.demands.worker, question.demands.server], axis=1)
        amounts = np.rint(needs[:, :, : len(RESOURCES)] * MICRO).astype(np.int64)
        tasks = int(
            answer.workers.sum() + answer.servers.sum() + question.workers.sum() + question.servers.sum()
        )
        wanted = answer.workers > 0
        seat(
            view.ledger.reserve(2 * tasks + len(jobs), 4 * len(jobs)),
            table.asked,
            jobs.index,
            order,
            answer.workers,
            answer.servers,
            question.least_workers,
            amounts,
            np.array([round(node.nic_gb_per_s * MICRO) for node in view.cluster.nodes], np.int64),
            np.array([node.rack for node in view.cluster.nodes], np.int64),
            question.is_ring,
            table.node_allowed,
            kept,
        )
        holds = view.ledger.books.heads[jobs.index] >= 0
        plan.reasons[:] = np.where(holds, PLACED, np.where(wanted, NO_PLACE, NOT_SELECTED))
        lost = ~holds & wanted
        plan.reason_a[lost] = (question.least_workers * question.demands.worker[:, 0])[lost]
        plan.reason_b[lost] = view.ledger.free()[0]
