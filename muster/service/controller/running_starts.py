"""The starts that have not ended, and what they occupy: those that were asked to stop may still be there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import MICRO, WHOLE
from muster.cluster.resources import RESOURCES
from muster.service.controller.starts import JobStart

_COUNTED = tuple(place for place, resource in enumerate(RESOURCES) if resource.requested)
"""In the amounts of nodes and allocations."""


class RunningStarts(Mapping[int, JobStart]):
    """Starts by job. Sums by GPU and node are whole thousandths and millionths as in the ledger, so they balance."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._starts: dict[int, JobStart] = {}
        self._milli: dict[tuple[str, int], int] = defaultdict(int)
        self._held: dict[tuple[str, int], int] = defaultdict(int)
        """By node and resource, in millionths; GPUs are counted one by one."""

    def __getitem__(self, job: int) -> JobStart:
        """The start of a job."""
        return self._starts[job]

    def __iter__(self) -> Iterator[int]:
        """The jobs that have a start."""
        return iter(self._starts)

    def __len__(self) -> int:
        """How many starts there are."""
        return len(self._starts)

    def add(self, start: JobStart) -> None:
        """A start runs from now on, or is found to."""
        self._starts[start.job] = start
        self._add(start.allocations, 1)

    def resize(self, start: JobStart, allocations: tuple[NodeAllocation[str], ...]) -> None:
        """Give a start other amounts."""
        self._add(start.allocations, -1)
        start.allocations = allocations
        self._add(allocations, 1)

    def remove(self, start: JobStart) -> None:
        """A start has ended."""
        del self._starts[start.job]
        self._add(start.allocations, -1)

    def has_room(
        self, wanted: Iterable[NodeAllocation[str]], instead_of: Iterable[NodeAllocation[str]] = ()
    ) -> bool:
        """Whether these allocations are free, or would be if the others were given back."""
        self._add(instead_of, -1)
        free = all(self._is_free(here) for here in wanted)
        self._add(instead_of, 1)
        return free

    def _is_free(self, here: NodeAllocation[str]) -> bool:
        node = self._cluster.nodes[self._cluster.node_index[here.node]]
        return all(self._milli[here.node, gpu] + here.milli <= WHOLE for gpu in here.gpu_ids) and all(
            self._held[here.node, resource] + _micro(here.amounts[resource]) <= _micro(node.amounts[resource])
            for resource in _COUNTED
        )

    def _add(self, allocations: Iterable[NodeAllocation[str]], sign: int) -> None:
        for here in allocations:
            for gpu in here.gpu_ids:
                self._milli[here.node, gpu] += sign * here.milli
            for resource in _COUNTED:
                self._held[here.node, resource] += sign * _micro(here.amounts[resource])


def _micro(amount: float) -> int:
    return round(amount * MICRO)
