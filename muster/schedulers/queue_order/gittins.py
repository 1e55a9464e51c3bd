"""Gittins index policy whose distribution of service is learned from the jobs that ended here.

A job's length is the GPU time that it takes in all, its age the GPU time that it has attained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Floats, Ints
from muster.compiling import njit
from muster.schedulers.contract import Snapshot, State
from muster.schedulers.parts import Order, check_seconds, setting
from muster.workload.jobs import COMPLETED

_EDGES = 60.0 * 2.0 ** np.arange(20)
"""GPU-seconds that separate the classes of attained service: from a minute of a GPU, each twice the one before."""
_PRIOR_FROM = 4 * 3600.0
_PRIOR_JOBS = 4.0
"""Before anything is known, lengths count as spread evenly over the classes above four GPU-hours, as if so many jobs
had ended there: jobs are then served by arrival, until one has attained about sixteen."""


@dataclass(frozen=True)
class Gittins(Order):
    """Likeliest to end soon first, learned from the lengths of ended jobs; by arrival among equals, preemptive."""

    name: ClassVar[str] = "gittins"
    time_slices: ClassVar[bool] = True

    learn_from: int = setting(10, "ended jobs that are needed before their lengths count")
    quantum_seconds: float = setting(300.0, "seconds between decisions while jobs overtake each other")

    def __post_init__(self) -> None:
        if self.learn_from < 1:
            raise ValueError("learn_from: allowed: a whole number above 0")
        check_seconds(self, "quantum_seconds")

    def initial(self, cluster: Cluster) -> State:
        """The jobs of the last decision, and how many jobs ended in each class of length."""
        return {"seen": np.zeros(0, np.int64), "ended": np.zeros(len(_EDGES) + 1)}

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Minus the chance to end per GPU-second it takes, at the best moment to look; a start-up takes time, too."""
        jobs, ended = snapshot.jobs, _with_ended(snapshot, state)
        ages = np.searchsorted(_EDGES, jobs.attained_service, side="right")
        soon, spent = _prospects(_known(ended, self.learn_from), _survivors(ages))
        start_up = np.where(jobs.running, 0.0, jobs.interruption_cost * jobs.requested_gpus)
        return -_best_rate(soon, spent, ages, start_up), {"seen": jobs.index, "ended": ended}

    def next_rank_change(self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints) -> float:
        """When the next running job comes into another class of age."""
        if not len(waiting) or not len(running):
            return np.inf
        runs = snapshot.jobs.at(running)
        ran = runs.attained_service
        next_edge = np.append(_EDGES, np.inf)[np.searchsorted(_EDGES, ran, side="right")]
        pace = np.maximum(np.where(runs.held_gpus > 0, runs.held_gpus, runs.requested_gpus), 1e-9)
        return float((snapshot.now + (next_edge - ran) / pace).min())

    def quantum(self) -> float:
        """The setting."""
        return self.quantum_seconds


def _with_ended(snapshot: Snapshot, state: State) -> Floats:
    """How many jobs ended in each class, with those that have left since the last decision."""
    gone = np.setdiff1d(state["seen"], snapshot.jobs.index, assume_unique=True)
    # The last jobs of a daemon that was restarted since then may no longer be in the table.
    facts = snapshot.table.facts[gone[gone < len(snapshot.table)]]
    lengths = facts["attained"][facts["state"] == COMPLETED]
    classes = np.searchsorted(_EDGES, lengths, side="right")
    ended: Floats = state["ended"] + np.bincount(classes, minlength=len(_EDGES) + 1)
    return ended


def _known(ended: Floats, learn_from: int) -> Floats:
    """The prior, and the ended jobs once there are enough of them."""
    above = np.append(0.0, _EDGES) >= _PRIOR_FROM
    prior = above * (_PRIOR_JOBS / above.sum())
    known: Floats = prior + ended if ended.sum() >= learn_from else prior
    return known


def _survivors(ages: Ints) -> Floats:
    """Of the jobs in the system, how many have passed each class without ending there."""
    at_age = np.bincount(ages, minlength=len(_EDGES) + 1)
    survivors = np.cumsum(at_age[::-1])[::-1] - at_age
    return survivors.astype(np.float64)


@njit(cache=True)
def _prospects(ended: Floats, survivors: Floats) -> tuple[Floats, Floats]:
    """For a job at the start of class i: chance to end by the end of class j, and expected service until then.

    Lengths follow the product-limit estimate: the chance to end in a class is the ended jobs there over all that
    came as far, jobs still in the system counted where they have passed the class.
    """
    classes = len(ended)
    soon, spent = np.zeros((2, classes, classes))
    at_risk = np.cumsum(ended[::-1])[::-1] + survivors
    for first in range(classes):
        start = _EDGES[first - 1] if first else 0.0
        left, chance, seconds = 1.0, 0.0, 0.0
        for last in range(first, classes):
            begin = _EDGES[last - 1] if last else 0.0
            end = _EDGES[last] if last < classes - 1 else 2.0 * begin
            ends_here = left * ended[last] / at_risk[last] if at_risk[last] > 0 else 0.0
            left -= ends_here
            chance += ends_here
            seconds += ends_here * ((begin + end) / 2 - start)
            soon[first, last] = chance
            spent[first, last] = seconds + left * (end - start)
    return soon, spent


@njit(cache=True)
def _best_rate(soon: Floats, spent: Floats, ages: Ints, start_up: Floats) -> Floats:
    """The Gittins index of each job: the largest chance per GPU-second over all moments to look."""
    best = np.zeros(len(ages))
    for at in range(len(ages)):
        for last in range(ages[at], len(soon)):
            best[at] = max(best[at], soon[ages[at], last] / (spent[ages[at], last] + start_up[at]))
    return best
