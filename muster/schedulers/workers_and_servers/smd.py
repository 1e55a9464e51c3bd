"""SMD: each job's best sizes, then a knapsack over the jobs (INFOCOM 2021; derivation in docs/smd.md)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Ints, State
from muster.schedulers.parts import setting
from muster.schedulers.selection.knapsack import NOTHING, Columns, Effort, choose
from muster.schedulers.workers_and_servers.interval import Accounting, Answer, AtIntervals
from muster.schedulers.workers_and_servers.question import Question


@dataclass(frozen=True)
class Smd(AtIntervals):
    """SMD: the set of jobs and sizes of most utility, by a multiple-choice knapsack."""

    name: ClassVar[str] = "smd"

    layers: bool = setting(True, "whether it knows which communication hides behind the layers")
    hysteresis: float = setting(0.05, "part of its time left by which a new size must be faster")
    nodes: int = setting(0, "of branch and bound; 0: the relaxation, floored and refilled")
    solver_seconds: float = setting(
        inf, "live only: branch and bound ends after so long with the best plan so far"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.hysteresis >= 0:
            raise ValueError("hysteresis is a number from 0 on")
        if self.nodes < 0:
            raise ValueError("nodes is a whole number from 0 on")
        if not self.solver_seconds > 0:
            raise ValueError("solver_seconds is a number of seconds above 0")

    def layers_known(self) -> bool:
        """By its setting."""
        return self.layers

    def answer(self, question: Question, memory: State) -> Answer:
        """The knapsack's choice, with its bound."""
        pairs = question.choices
        job, workers, servers, seconds = pairs.job, pairs.workers, pairs.servers, pairs.seconds
        if question.reserved:
            best = question.fastest
            job, workers, servers, seconds = job[best], workers[best], servers[best], seconds[best]
        profit = question.profit(job, workers, servers, seconds, self.hysteresis)
        usage = question.usage(job, workers, servers)
        columns = Columns(job, profit, usage, np.zeros(len(question), bool))
        effort = Effort(nodes=self.nodes, seconds=self.solver_seconds)
        selection = choose(columns, question.capacity, effort)
        taken = selection.chosen
        notes = (self._out_of_time(selection.gap),) if selection.out_of_time else ()
        return Answer(_at(workers, taken), _at(servers, taken), selection.bound, self.hysteresis, notes=notes)

    def _out_of_time(self, gap: float) -> str:
        return (
            f"{self.name}: out of time after {self.solver_seconds:g} s; the best plan found by then stands, at most "
            f"{gap:.2%} below the best there is"
        )


@dataclass(frozen=True)
class SmdReservation(Smd):
    """SMD as its problem is stated: each job served is charged its owner's whole limit."""

    name: ClassVar[str] = "smd-reservation"

    accounting: Accounting = setting("reservation", "a job is charged its owner's limit, or what it holds")


def _at(counts: Ints, taken: Ints) -> Ints:
    """The counts of the columns taken, 0 where none was."""
    return np.where(taken == NOTHING, 0, counts[taken])
