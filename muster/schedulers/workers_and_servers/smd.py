"""SMD: each job's best sizes, then a knapsack over the jobs (INFOCOM 2021; derivation in docs/explanation/smd.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, inf, log10
from typing import ClassVar, Literal

import numpy as np

from muster.schedulers.admission.knapsack import NOTHING, KnapsackChoice, SolverEffort
from muster.schedulers.contract import Floats, Ints, State
from muster.schedulers.parts import check_seconds, setting
from muster.schedulers.workers_and_servers.best_sizes import best_sizes
from muster.schedulers.workers_and_servers.interval import Accounting, PeriodicScheduler, SizingSolution
from muster.schedulers.workers_and_servers.sizing_problem import Choices, SizingProblem
from muster.schedulers.workers_and_servers.waiting import profit_beside_waiting
from muster.schedulers.workers_and_servers.waiting_core import IDLE

Objective = Literal["waiting", "published"]
AUTOMATIC = -1
_ALIKE = 1 + 1e-9
"""Times as many seconds count as equally fast."""
EXACT = SolverEffort(nodes=200, work=10_000.0)
"""Of branch and bound by default, at every size: it adds at most about 50 ms (`python -m benchmarks.smd`)."""


@dataclass(frozen=True)
class Smd(PeriodicScheduler):
    """SMD: the set of jobs and sizes of most utility, by a multiple-choice knapsack."""

    name: ClassVar[str] = "smd"
    weighs_interruptions: ClassVar[bool] = True

    objective: Objective = setting(
        "waiting", "waiting: utility now less that of the best later start; published: utility now alone"
    )
    layers: bool = setting(True, "whether it knows which communication hides behind the layers")
    hysteresis: float = setting(0.05, "part of its time left by which a new size must be faster")
    nodes: int = setting(
        AUTOMATIC,
        "nodes of branch and bound at most; 0: none; -1: 200, and at most about 50 ms of counted work",
    )
    solver_seconds: float = setting(
        inf, "live only: branch and bound ends after so long with the best plan so far"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.hysteresis < inf:
            raise ValueError("hysteresis is a finite number from 0 on")
        if self.nodes < AUTOMATIC:
            raise ValueError("nodes is a whole number from 0 on, or -1")
        check_seconds(self, "solver_seconds")

    def layers_known(self) -> bool:
        """By its setting."""
        return self.layers

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """The knapsack's choice, with its bound."""
        if (answer := self.fastest(question)) is not None:
            return answer
        pairs = question.choices
        if question.reserved:
            # All sizes of a job are charged alike: the fastest is best, or the one held, which costs no interruption.
            held = (question.workers[pairs.job] > 0) & ~question.changes(
                pairs.job, pairs.workers, pairs.servers
            )
            pairs = pairs.at(np.union1d(question.fastest, np.flatnonzero(held)))
        job, workers, servers = pairs.job, pairs.workers, pairs.servers
        if not len(job):
            return SizingSolution.nothing(len(question))
        profit, usage = self.profits(question, pairs, memory)
        effort = replace(
            EXACT if self.nodes == AUTOMATIC else SolverEffort(nodes=self.nodes), seconds=self.solver_seconds
        )
        selection = best_sizes(question, job, profit, usage, effort)
        taken = selection.chosen
        last = np.zeros(len(question), bool)
        if self.objective == "waiting":
            last = (taken != NOTHING) & (profit[taken] <= IDLE)

        def value_of(workers: Ints, servers: Ints) -> float:
            return question.value(workers, servers, self.hysteresis)

        notes = self._notes(selection, effort)
        answer = SizingSolution(_at(workers, taken), _at(servers, taken), last=last, notes=notes)
        if self.objective == "published":
            answer.bound, answer.value_of = selection.bound, value_of
        return answer

    def profits(self, question: SizingProblem, pairs: Choices, memory: State) -> tuple[Floats, Floats]:
        """What each size is worth, and what it is charged."""
        if self.objective == "waiting":
            return profit_beside_waiting(question, pairs, self.hysteresis)
        job, workers, servers = pairs.job, pairs.workers, pairs.servers
        profit = question.profit(job, workers, servers, pairs.seconds, self.hysteresis)
        return profit, question.usage(job, workers, servers)

    def fastest(self, question: SizingProblem) -> SizingSolution | None:
        """Where all jobs fit at their fastest sizes, waiting costs nothing: each running one keeps its own.

        More than one waiting job, a running job that could grow, and sizes that are equally fast are left to the
        knapsack.
        """
        if self.objective != "waiting":
            return None
        waiting = np.flatnonzero(question.workers == 0)
        if len(waiting) > 1 or len(question.fastest) < len(question):
            return None
        pairs, best = question.choices, question.choices.at(question.fastest)
        if question.changes(best.job, best.workers, best.servers).any():
            return None
        seconds = pairs.seconds[pairs.job == waiting[0]] if len(waiting) else np.zeros(0)
        if np.count_nonzero(seconds <= seconds.min(initial=np.inf) * _ALIKE) > 1:
            return None
        usage = question.usage(best.job, best.workers, best.servers)
        used = np.vstack([usage.sum(axis=0), question.bound[:, best.job] @ usage])
        if not (used < np.vstack([question.capacity, question.capacity_there]))[used > 0].all():
            return None
        return SizingSolution(best.workers, best.servers, last=np.zeros(len(question), bool), fastest=True)

    def placed_first(self, question: SizingProblem) -> Ints:
        """All jobs by falling demand: a large job that finds no place is worth more than the small ones around it."""
        return np.full(len(question), -1)

    def _notes(self, selection: KnapsackChoice, effort: SolverEffort) -> tuple[str, ...]:
        """What is said about a search that ended at a limit; a gap is rounded up, so that few notes differ."""
        if selection.out_of_time:
            why, gap = f"out of time after {self.solver_seconds:g} s", f"{selection.gap:.2%}"
        elif effort.nodes > 0 and selection.gap > effort.gap:
            why, gap = "branch and bound ended at its limit of work", f"{rounded_up(selection.gap):.2g}%"
        else:
            return ()
        return (
            f"{self.name}: {why}; the best plan found by then stands, at most {gap} below the best there is",
        )


@dataclass(frozen=True)
class SmdReservation(Smd):
    """SMD as its problem is stated: each job served is charged its owner's whole limit."""

    name: ClassVar[str] = "smd-reservation"

    accounting: Accounting = setting("reservation", "a job is charged its owner's limit, or what it holds")


def _at(counts: Ints, taken: Ints) -> Ints:
    """The counts of the columns taken, 0 where none was."""
    return np.where(taken == NOTHING, 0, counts[taken])


def rounded_up(gap: float) -> float:
    """In per cent, the next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** floor(log10(100 * gap))
    return next(step * power for step in (1, 2, 5, 10) if 100 * gap <= step * power)
