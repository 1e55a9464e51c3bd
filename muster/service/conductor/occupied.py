"""What the starts that live now really occupy: those that were asked to go may still be there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from muster.cluster import Cluster
from muster.cluster.books import WHOLE
from muster.service.conductor.starts import Start
from muster.service.engines import Seat

_SLACK = 1e-6


class Occupied:
    """Sums by GPU and node, kept up as seats are taken and given back."""

    def __init__(self, cluster: Cluster, starts: Iterable[Start]) -> None:
        self._cluster = cluster
        self._milli: dict[tuple[str, int], int] = defaultdict(int)
        self._cpus: dict[str, float] = defaultdict(float)
        self._memory_gb: dict[str, float] = defaultdict(float)
        for start in starts:
            self.take(start.seats)

    def take(self, seats: Iterable[Seat], sign: int = 1) -> None:
        """These seats are somebody's now; with a `sign` of -1 nobody's."""
        for seat in seats:
            for gpu in seat.gpus:
                self._milli[seat.node, gpu] += sign * seat.gpu_milli
            self._cpus[seat.node] += sign * seat.cpus
            self._memory_gb[seat.node] += sign * seat.memory_gb

    def has_room(self, seats: Iterable[Seat]) -> bool:
        """Whether all of these seats are free."""
        return all(self._is_free(seat) for seat in seats)

    def _is_free(self, seat: Seat) -> bool:
        node = self._cluster.nodes[self._cluster.node_index[seat.node]]
        return (
            all(self._milli[seat.node, gpu] + seat.gpu_milli <= WHOLE for gpu in seat.gpus)
            and self._cpus[seat.node] + seat.cpus <= node.cpus + _SLACK
            and self._memory_gb[seat.node] + seat.memory_gb <= node.memory_gb + _SLACK
        )
