"""Node failures: when each node fails and is repaired, seeded."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import inf

import numpy as np


@dataclass(frozen=True)
class Failures:
    """How often nodes fail and how long a repair takes."""

    mean_seconds_between: float
    """Of one node, exponential."""
    repair_seconds: float


class FailureClock:
    """The failures and repairs to come, by time; each node has its own stream of random numbers.

    All nodes are up when the first job arrives, and fail from then on.
    """

    def __init__(self, failures: Failures | None, nodes: int, seed: int, first_arrival: float = 0.0) -> None:
        self._failures = failures
        self._draws = [np.random.default_rng([seed, 0xFA11, node]) for node in range(nodes) if failures]
        self._queue: list[tuple[float, int, bool]] = []
        for node in range(len(self._draws)):
            self._schedule_failure(first_arrival, node)

    def _schedule_failure(self, after: float, node: int) -> None:
        assert self._failures is not None
        gap = float(self._draws[node].exponential(self._failures.mean_seconds_between))
        heapq.heappush(self._queue, (after + gap, node, False))

    def next_time(self) -> float:
        """When the next node fails or comes back; inf: never."""
        return self._queue[0][0] if self._queue else inf

    def due(self, now: float) -> list[tuple[int, bool]]:
        """Nodes that change by now, in order, with whether they come back."""
        changes = []
        while self._queue and self._queue[0][0] <= now:
            at, node, repaired = heapq.heappop(self._queue)
            changes.append((node, repaired))
            if repaired:
                self._schedule_failure(at, node)
            else:
                assert self._failures is not None
                heapq.heappush(self._queue, (at + self._failures.repair_seconds, node, True))
        return changes
