"""A decision's changes as typed actions, each with the jobs that caused it or that it makes room for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.cluster.ledger import NodeAllocation, node_allocations
from muster.schedulers.decision import Decision


@dataclass(frozen=True)
class Start:
    """A waiting job gets an allocation; `takes_from` are jobs that held GPUs of it, or else CPUs and memory."""

    job: int
    allocations: tuple[NodeAllocation, ...]
    takes_from: tuple[int, ...]


@dataclass(frozen=True)
class Preempt:
    """A running job loses its allocation to the jobs of `makes_room_for`; empty: no job uses it yet."""

    job: int
    makes_room_for: tuple[int, ...]


@dataclass(frozen=True)
class Resize:
    """A running job keeps its GPUs and servers and gets other amounts of CPU, memory or storage bandwidth."""

    job: int
    allocations: tuple[NodeAllocation, ...]
    makes_room_for: tuple[int, ...]


@dataclass(frozen=True)
class Migrate:
    """A running job gets other GPUs or servers: another place or another number of them."""

    job: int
    allocations: tuple[NodeAllocation, ...]
    makes_room_for: tuple[int, ...]


Action = Start | Preempt | Resize | Migrate


class LedgerView(Protocol):
    """A ledger, or a copy of what one says."""

    def holding(self, job: int) -> Sequence[NodeAllocation]:
        """What a job holds."""
        ...


def actions_of(decision: Decision, ledger: LedgerView) -> list[Action]:
    """The actions of a decision, in its order; the ledger is the one it was made on, without its changes."""
    jobs, first, rows = decision.changes
    after = {job: node_allocations(rows[first[at] : first[at + 1]]) for at, job in enumerate(jobs.tolist())}
    before = {job: tuple(ledger.holding(job)) for job in after}
    freed = {job: _more(before[job], after[job]) for job in after}
    gained = {job: _more(after[job], before[job]) for job in after}
    takers, givers = _by_unit(gained), _by_unit(freed)
    actions: list[Action] = []
    for job, allocations in after.items():
        if not before[job]:
            actions.append(Start(job, allocations, _others(job, gained[job], givers)))
        elif not allocations:
            actions.append(Preempt(job, _others(job, freed[job], takers)))
        else:
            kind = Resize if _place(before[job]) == _place(allocations) else Migrate
            actions.append(kind(job, allocations, _others(job, freed[job], takers)))
    return actions


_Unit = tuple[int, int]
"""A GPU of a node; with GPU -1: CPU, memory and storage bandwidth of the node."""


def _amounts(allocations: Iterable[NodeAllocation]) -> dict[_Unit, float]:
    """How much of each unit allocations hold: thousandths of a GPU, or cores, GB and GB/s summed."""
    amounts: dict[_Unit, float] = {}
    for one in allocations:
        for gpu in one.gpu_ids:
            amounts[one.node, gpu] = one.milli
        beside = amounts.get((one.node, -1), 0.0) + one.cpus + one.memory_gb + one.storage_gb_per_s
        amounts[one.node, -1] = beside
    return amounts


def _more(these: Iterable[NodeAllocation], than: Iterable[NodeAllocation]) -> set[_Unit]:
    """The units of which these allocations hold more than the others."""
    others = _amounts(than)
    return {unit for unit, amount in _amounts(these).items() if amount > others.get(unit, 0.0)}


def _by_unit(units: Mapping[int, set[_Unit]]) -> dict[_Unit, list[int]]:
    """The jobs that gained or freed each unit, in the decision's order."""
    jobs: dict[_Unit, list[int]] = {}
    for job, these in units.items():
        for unit in these:
            jobs.setdefault(unit, []).append(job)
    return jobs


def _others(job: int, units: set[_Unit], jobs: Mapping[_Unit, list[int]]) -> tuple[int, ...]:
    """The other jobs of these GPUs; where there are none, those of the same nodes' CPUs and memory."""
    gpus = {other for unit in units if unit[1] >= 0 for other in jobs.get(unit, ())} - {job}
    beside = {other for unit in units if unit[1] < 0 for other in jobs.get(unit, ())} - {job}
    return tuple(sorted(gpus or beside))


def _place(allocations: Iterable[NodeAllocation]) -> list[tuple[object, ...]]:
    return sorted((one.node, one.gpu_ids, one.milli, one.role, one.group) for one in allocations)
