"""Shortest remaining time where speed depends on what a job is given (Synergy §5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import Floats
from muster.schedulers.contract import Snapshot, State
from muster.schedulers.parts import DURATIONS, SECONDS, Order
from muster.schedulers.queue_order.keys import seconds_an_iteration
from muster.speed.demands import kinds_allowed


@dataclass(frozen=True)
class SrtfSpeed(Order):
    """Shortest remaining time first at the speed it runs at, or at its best while it waits; preemptive."""

    name: ClassVar[str] = "srtf-speed"
    needs: ClassVar[tuple[str, ...]] = (DURATIONS,)

    @property
    def key_unit(self) -> str:
        """Seconds."""
        return SECONDS

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Remaining seconds; where durations are unknown, attained service."""
        remaining = remaining_at_speed(snapshot)
        if snapshot.jobs.durations_known:
            return remaining, state
        return np.where(np.isnan(remaining), snapshot.jobs.attained_service, remaining), state

    def quantum(self) -> float:
        """A job that is slowed down may fall behind, so it is asked again and again."""
        return 300.0


def remaining_at_speed(snapshot: Snapshot) -> Floats:
    """Believed seconds left at the present speed of those that run and the best speed of those that wait."""
    jobs, models = snapshot.jobs, snapshot.resource_profiles.models
    best = _best_speeds(snapshot)
    seconds = seconds_an_iteration(snapshot.ledger.books, jobs.index, jobs.gpus, jobs.model, models, best)
    work_left: Floats = np.maximum(snapshot.table.asked["believed"][jobs.index] - jobs.work_done, 0.0)
    return work_left * seconds


def remaining_at_best_speed(snapshot: Snapshot) -> Floats:
    """Believed seconds left at the best speed of each job, whatever it holds."""
    jobs, models = snapshot.jobs, snapshot.resource_profiles.models
    work_left = np.maximum(snapshot.table.asked["believed"][jobs.index] - jobs.work_done, 0.0)
    seconds: Floats = work_left * models["reference_seconds"][jobs.model] / _best_speeds(snapshot)
    return seconds


def _best_speeds(snapshot: Snapshot) -> Floats:
    """The speed of each job on the kind of node that suits it best, of those that it may use.

    One that may use none goes by all kinds.
    """
    jobs, profiles = snapshot.jobs, snapshot.resource_profiles
    classes, demands = profiles.of(jobs.model, jobs.gpus, jobs.requested_per_gpu)
    kinds, node_allowed = profiles.kinds, snapshot.table.node_allowed
    usable = kinds_allowed(node_allowed, profiles.kind_of_node, len(kinds))[jobs.constraint]
    usable &= (kinds["gpus"] > 0) | (jobs.gpus == 0)[:, None]
    usable |= ~usable.any(axis=1, keepdims=True)
    best: Floats = np.where(usable, demands.best_speed[classes], 0.0).max(axis=1)
    return best
