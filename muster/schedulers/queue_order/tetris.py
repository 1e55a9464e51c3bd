"""Tetris (SIGCOMM'14): pack well and finish short work first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import STORAGE
from muster.cluster.resources import RESOURCE_COUNT
from muster.schedulers.contract import Floats, Snapshot, State
from muster.schedulers.parts import DURATIONS, Order, setting
from muster.schedulers.queue_order.srtf_speed import remaining_at_best_speed, remaining_at_speed

_COUNTED = [resource for resource in range(RESOURCE_COUNT) if resource != STORAGE]
"""Storage bandwidth follows from CPUs and memory."""


@dataclass(frozen=True)
class Tetris(Order):
    """Least remaining work over all resources first, less a bonus for demands like what is free; preemptive."""

    name: ClassVar[str] = "tetris"
    needs: ClassVar[tuple[str, ...]] = (DURATIONS,)

    alignment: float = setting(
        1.0,
        "weight of the likeness of demand and free resources; 0: remaining work alone, as Synergy's program",
    )

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Remaining work less alignment, each over its mean, so that the weight has no unit.

        With alignment, no key depends on which of the competing jobs run: time left counts at each job's best speed,
        and what running jobs would free is free. Where durations are unknown, attained service stands for time left.
        """
        jobs = snapshot.jobs
        demand = demand_over_cluster(snapshot)
        remaining = remaining_at_best_speed(snapshot) if self.alignment else remaining_at_speed(snapshot)
        if not jobs.durations_known:
            remaining = np.where(np.isnan(remaining), jobs.attained_service, remaining)
        work = demand.sum(axis=1) * remaining
        if not self.alignment:
            return work, state
        alike = demand @ _free_to_compete_for(snapshot)
        return _over_mean(work) - self.alignment * _over_mean(alike), state

    def quantum(self) -> float:
        """Time left shrinks for running jobs only, and jobs that may not be interrupted yet may be later."""
        return 300.0


def _free_to_compete_for(snapshot: Snapshot) -> Floats:
    """The parts of the cluster's resources that are free or that running jobs could be made to free."""
    books, jobs = snapshot.ledger.books, snapshot.jobs
    usable = (books.nodes["capacity"] - books.nodes["unavailable"]).sum(axis=0)
    for job in jobs.index[jobs.pinned].tolist():
        row = books.heads[job]
        while row >= 0:
            usable = usable - books.rows[row]["amount"]
            row = books.rows[row]["next"]
    capacity = np.maximum(books.nodes["capacity"].sum(axis=0), 1)
    free: Floats = (usable / capacity)[_COUNTED]
    return free


def demand_over_cluster(snapshot: Snapshot) -> Floats:
    """The best-case demand of each job in parts of the cluster's resources."""
    jobs, resource_profiles = snapshot.jobs, snapshot.resource_profiles
    capacity = np.maximum(snapshot.ledger.books.nodes["capacity"].sum(axis=0)[_COUNTED], 1)
    classes, demands = resource_profiles.of(jobs.model, jobs.gpus, jobs.requested_per_gpu)
    per_gpu = demands.published[classes].max(axis=1)[:, _COUNTED]
    demand: Floats = per_gpu * jobs.requested_gpus[:, None] / capacity
    return demand


def _over_mean(values: Floats) -> Floats:
    """In units of their mean; as they are where that is 0."""
    mean = values.mean() if len(values) else 0.0
    return values / mean if mean > 0 else values
