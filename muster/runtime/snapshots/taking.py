"""A scheduler that another one stands behind, which keeps the whole input of one of its decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster.cluster import Cluster
from muster.problems import InputError, Problem
from muster.runtime.snapshots.file import SnapshotFile
from muster.runtime.snapshots.taken import Source, TakenSnapshot, memory_of
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State


class SnapshotTaker:
    """Decides as the scheduler behind it, and takes a snapshot of the first decision from a moment on."""

    def __init__(self, scheduler: Scheduler, at: float, source: Source = "simulation") -> None:
        self._scheduler, self._at, self._source = scheduler, at, source
        self.file: SnapshotFile | None = None
        """None: no decision has come from that moment on."""

    @property
    def name(self) -> str:
        """That of the scheduler."""
        return self._scheduler.name

    def __getattr__(self, name: str) -> Any:
        """What the scheduler honours and is made of."""
        return getattr(self._scheduler, name)

    def describe(self) -> dict[str, Any]:
        """That of the scheduler."""
        return self._scheduler.describe()

    def initial(self, cluster: Cluster) -> State:
        """That of the scheduler."""
        return self._scheduler.initial(cluster)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """The scheduler's decision."""
        if self.file is not None or snapshot.now < self._at:
            return self._scheduler.decide(snapshot, state)
        taken = TakenSnapshot.of(snapshot, memory_of(state, self._scheduler))
        decision, after = self._scheduler.decide(snapshot, state)
        self.file = taken.file(self._scheduler, decision, self._source)
        return decision, after

    def write(self, path: Path) -> None:
        """Write the snapshot. InputError if no decision came from that moment on."""
        if self.file is None:
            what = "allowed: a time at which the run still decides; no decision came from then on"
            raise InputError(Problem("--snapshot-at", what, found=f"{self._at:g} s"))
        self.file.write(path)
