"""Schedulers around another one, which decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from muster.cluster import Cluster
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State


@dataclass
class Wrapped:
    """Decides as the scheduler inside."""

    inner: Scheduler
    name: str = "wrapped"

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def initial(self, cluster: Cluster) -> State:
        return self.inner.initial(cluster)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        return self.inner.decide(snapshot, state)


@dataclass
class Counted(Wrapped):
    """Notes when it was asked."""

    asked_at: list[float] = field(default_factory=list)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        self.asked_at.append(snapshot.now)
        return super().decide(snapshot, state)
