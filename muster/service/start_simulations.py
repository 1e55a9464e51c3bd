"""The simulations that answer when jobs start: all that a process of its own needs, and nothing of the daemon.

What is not imported here is not waited for: the store and the API would take longer than many an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from muster.cluster import Cluster
from muster.schedulers.registry import build
from muster.simulation import Options
from muster.simulation.start_estimates import ExpectedQueue, QueueState, estimate_starts
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

    def answer(self) -> list[ExpectedQueue]:
        """What is expected of the queue, with each shape, or as it is."""
        return [self._expected(state) for state in self._states()]

    def _states(self) -> list[QueueState]:
        if not self.shapes:
            return [self.state]
        return [
            replace(self.state, waiting=pl.concat([self.state.waiting, shape], how="vertical_relaxed"))
            for shape in self.shapes
        ]

    def _expected(self, state: QueueState) -> ExpectedQueue:
        return estimate_starts(
            state,
            self.cluster,
            lambda _: build(self.scheduler, dict(self.settings)),
            draws=self.draws,
            models=self.models,
            options=self.options,
        )
