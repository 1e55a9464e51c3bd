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

    def __init__(self, cluster: Cluster, *, chooses_gpu_ids: bool = False) -> None:
        self.cluster = cluster
        self._by_id = not chooses_gpu_ids
        self._others: tuple[NodeAllocation[str], ...] = ()
        self._starts: dict[int, JobStart] = {}
        self._milli: dict[tuple[str, int], int] = defaultdict(int)
        self._held: dict[tuple[str, int], int] = defaultdict(int)
        """By node and resource, in millionths; GPUs are counted one by one."""
        self._gpus: dict[str, int] = defaultdict(int)
        """Thousandths of GPUs, by node."""

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

    def hold_back(self, others: Iterable[NodeAllocation[str]]) -> None:
        """Count what jobs that are not Muster's hold, instead of what they held before."""
        self._add(self._others, -1)
        self._others = tuple(others)
        self._add(self._others, 1)

    def has_room(
        self, wanted: Iterable[NodeAllocation[str]], instead_of: Iterable[NodeAllocation[str]] = ()
    ) -> bool:
        """Whether these allocations are free, or would be if the others were given back."""
        self._add(instead_of, -1)
        free = all(self._is_free(here) for here in wanted)
        self._add(instead_of, 1)
        return free

    def _is_free(self, here: NodeAllocation[str]) -> bool:
        node = self.cluster.nodes[self.cluster.node_index[here.node]]
        if self._by_id:
            gpus_free = all(self._milli[here.node, gpu] + here.milli <= WHOLE for gpu in here.gpu_ids)
        else:
            gpus_free = self._gpus[here.node] + here.milli * len(here.gpu_ids) <= WHOLE * node.gpus
        return gpus_free and all(
            self._held[here.node, resource] + _micro(here.amounts[resource]) <= _micro(node.amounts[resource])
            for resource in _COUNTED
        )

    def _add(self, allocations: Iterable[NodeAllocation[str]], sign: int) -> None:
        for here in allocations:
            self._gpus[here.node] += sign * here.milli * len(here.gpu_ids)
            for gpu in here.gpu_ids:
                self._milli[here.node, gpu] += sign * here.milli
            for resource in _COUNTED:
                self._held[here.node, resource] += sign * _micro(here.amounts[resource])


def _micro(amount: float) -> int:
    return round(amount * MICRO)
