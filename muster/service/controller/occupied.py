"""What the starts that live now really occupy: those that were asked to go may still be there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import MICRO, WHOLE
from muster.service.engines import Seat


class Occupied:
    """Sums by GPU and node in whole thousandths and millionths, as the ledger has them, so that they balance."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._milli: dict[tuple[str, int], int] = defaultdict(int)
        self._cpus: dict[str, int] = defaultdict(int)
        self._memory: dict[str, int] = defaultdict(int)

    def take(self, seats: Iterable[Seat]) -> None:
        """These seats are somebody's now."""
        self._add(seats, 1)

    def give_back(self, seats: Iterable[Seat]) -> None:
        """These seats are nobody's any more."""
        self._add(seats, -1)

    def has_room(self, seats: Iterable[Seat], instead_of: Iterable[Seat] = ()) -> bool:
        """Whether all of these seats are free, or were if the others were given back."""
        self._add(instead_of, -1)
        free = all(self._is_free(seat) for seat in seats)
        self._add(instead_of, 1)
        return free

    def _is_free(self, seat: Seat) -> bool:
        node = self._cluster.nodes[self._cluster.node_index[seat.node]]
        return (
            all(self._milli[seat.node, gpu] + seat.gpu_milli <= WHOLE for gpu in seat.gpus)
            and self._cpus[seat.node] + _micro(seat.cpus) <= _micro(node.cpus)
            and self._memory[seat.node] + _micro(seat.memory_gb) <= _micro(node.memory_gb)
        )

    def _add(self, seats: Iterable[Seat], sign: int) -> None:
        for seat in seats:
            for gpu in seat.gpus:
                self._milli[seat.node, gpu] += sign * seat.gpu_milli
            self._cpus[seat.node] += sign * _micro(seat.cpus)
            self._memory[seat.node] += sign * _micro(seat.memory_gb)


def _micro(amount: float) -> int:
    return round(amount * MICRO)
