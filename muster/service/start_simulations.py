"""The simulations that answer when jobs start: all that a process of its own needs, and nothing of the daemon.

What is not imported here is not waited for: the store and the API would take longer than many an answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import polars as pl

from muster.cluster import Cluster
from muster.schedulers.registry import build
from muster.simulation import Options
from muster.simulation.start_estimates import (
    FEWEST_OF_INTERVAL,
    ExpectedQueue,
    QueueState,
    estimate_starts,
)
from muster.workload.models import Model


@dataclass(frozen=True)
class StartQuestion:
    """What a process of its own needs."""

    state: QueueState
    shapes: Sequence[pl.DataFrame]
    """A job that is not submitted, in one shape after the other; none: the jobs that wait are asked about."""
    cluster: Cluster
    scheduler: str
    settings: Mapping[str, str]
    models: Mapping[str, Model]
    options: Options
    draws: int
    """One where nothing is drawn: all would be the same."""
    guessed: int
    """Jobs whose duration is neither known nor can be drawn."""
    enough_seconds: float = inf
    """After which no further draw is begun, once there are as many as an interval needs; all shapes together."""

    def answer(self) -> list[ExpectedQueue]:
        """What is expected of the queue, with each shape, or as it is."""
        states, began = self._states(), time.monotonic()
        each = self.enough_seconds / len(states)
        return [self._expected(state, began + each * at) for at, state in enumerate(states, 1)]

    def _states(self) -> list[QueueState]:
        if not self.shapes:
            return [self.state]
        return [
            replace(self.state, waiting=pl.concat([self.state.waiting, shape], how="vertical_relaxed"))
            for shape in self.shapes
        ]

    def _draws_until(self, end: float) -> Iterator[int]:
        for draw in range(self.draws):
            if draw >= FEWEST_OF_INTERVAL and time.monotonic() >= end:
                return
            yield draw

    def _expected(self, state: QueueState, end: float) -> ExpectedQueue:
        return estimate_starts(
            state,
            self.cluster,
            lambda _: build(self.scheduler, dict(self.settings)),
            draws=self._draws_until(end),
            models=self.models,
            options=self.options,
        )
