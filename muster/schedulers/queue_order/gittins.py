"""Gittins index policy whose distribution of service is learned from the jobs that ended here, by kind of job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.contract import Snapshot, State
from muster.schedulers.parts import Order, check_seconds, setting
from muster.schedulers.queue_order.gone import gone_since
from muster.schedulers.queue_order.keys import best_rates
from muster.schedulers.queue_order.lengths_by_kind import EDGES, KnownLengths

_STAYS = 2.0
"""How many times the index of a running rigid job a waiting one must have to go before it.

What is learned of lengths is uncertain, and who stops a job leaves others GPUs that fit them worse. An elastic job
makes room by a smaller size.
"""


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
        """The jobs of the last decision, and what those that ended have taught."""
        return {"seen": np.zeros(0, np.int64), "lengths": KnownLengths()}

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Minus the chance to end per GPU-second it takes, at the best moment to look; a start-up takes time, too.

        That of a running rigid job counts in addition that it runs.
        """
        jobs = snapshot.jobs
        lengths = state["lengths"].after(snapshot.table, gone_since(snapshot, state["seen"]), self.learn_from)
        ages = np.searchsorted(EDGES, jobs.attained_service, side="right")
        kinds, chances = lengths.chances(snapshot, ages, self.learn_from)
        start_up = np.where(jobs.running, 0.0, jobs.interruption_cost * jobs.requested_gpus)
        rates = best_rates(EDGES, chances, kinds, ages, start_up)
        rates[jobs.running & ~jobs.elastic] *= _STAYS
        return -rates, {"seen": jobs.index, "lengths": lengths}

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
        """When the next running job comes into another class of age."""
        if not len(waiting) or not len(running):
            return np.inf
        runs = snapshot.jobs.at(running)
        ran = runs.attained_service
        next_edge = np.append(EDGES, np.inf)[np.searchsorted(EDGES, ran, side="right")]
        pace = np.maximum(np.where(runs.held_gpus > 0, runs.held_gpus, runs.requested_gpus), 1e-9)
        return float((snapshot.now + (next_edge - ran) / pace).min())

    def quantum(self) -> float:
        """The setting."""
        return self.quantum_seconds
