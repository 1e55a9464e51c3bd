"""Gittins index policy whose distribution of service is learned from the jobs that ended here.

A job's length is the GPU time that it takes in all, its age the GPU time that it has attained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.contract import Snapshot, State
from muster.schedulers.parts import Order, check_seconds, setting
from muster.schedulers.queue_order.keys import best_rates, prospects
from muster.workload.jobs import COMPLETED

_EDGES: Floats = np.ldexp(60.0, np.arange(20))
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
        soon, spent = prospects(_EDGES, _known(ended, self.learn_from), _survivors(ages))
        start_up = np.where(jobs.running, 0.0, jobs.interruption_cost * jobs.requested_gpus)
        return -best_rates(soon, spent, ages, start_up), {"seen": jobs.index, "ended": ended}

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
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
