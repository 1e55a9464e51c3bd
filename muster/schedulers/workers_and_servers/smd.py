"""SMD: each job's best sizes, then a knapsack over the jobs (INFOCOM 2021; derivation in docs/smd.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.schedulers.contract import Ints, State
from muster.schedulers.parts import setting
from muster.schedulers.selection.knapsack import NOTHING, Columns, Effort, choose
from muster.schedulers.workers_and_servers.interval import Accounting, Answer, AtIntervals
from muster.schedulers.workers_and_servers.question import Question

PROGRESS = 1e-3
"""Profit beside the utility of an hour's completion: decides between sizes and jobs whose utility is the same, so
that late and insensitive jobs are served with what is left."""


@dataclass(frozen=True)
class Smd(AtIntervals):
    """SMD: the set of jobs and sizes of most utility, by a multiple-choice knapsack."""

    name: ClassVar[str] = "smd"

    layers: bool = setting(True, "whether it knows which communication hides behind the layers")
    hysteresis: float = setting(0.05, "part of its time left by which a new size must be faster")
    nodes: int = setting(0, "of branch and bound; 0: the relaxation, floored and refilled")

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
        left = question.remaining[job] * seconds
        changed = question.changes(job, workers, servers)
        left = np.where(changed, left * (1 + self.hysteresis) + self.restart_seconds, left)
        completion = question.now - question.arrival[job] + left
        profit = question.worth(job, completion) + PROGRESS / (1 + completion / 3600.0)
        usage = question.usage(job, workers, servers)
        columns = Columns(job, profit, usage, np.zeros(len(question), bool))
        selection = choose(columns, question.capacity, Effort(nodes=self.nodes))
        taken = selection.chosen
        return Answer(_at(workers, taken), _at(servers, taken), selection.bound)


@dataclass(frozen=True)
class SmdReservation(Smd):
    """SMD as its problem is stated: each job served is charged its owner's whole limit."""

    name: ClassVar[str] = "smd-reservation"

    accounting: Accounting = setting("reservation", "a job is charged its owner's limit, or what it holds")


def _at(counts: Ints, taken: Ints) -> Ints:
    """The counts of the columns taken, 0 where none was."""
    return np.where(taken == NOTHING, 0, counts[taken])
