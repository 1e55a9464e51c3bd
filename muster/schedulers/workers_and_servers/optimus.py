"""Optimus: one worker and one server for each job, then one more where it saves most (EuroSys 2018, §4.1)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.compiling import njit
from muster.schedulers.contract import State
from muster.schedulers.parts import setting
from muster.schedulers.workers_and_servers.interval import PeriodicScheduler, SizingSolution
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from muster.speed.parameter_server.compiled import sized_step
from muster.workload.sized import RESOURCES


@dataclass(frozen=True)
class Optimus(PeriodicScheduler):
    """Optimus: one more worker or server, again and again, where it cuts completion most for its share."""

    name: ClassVar[str] = "optimus"

    layers: bool = setting(False, "whether it knows which communication hides behind the layers")

    def layers_known(self) -> bool:
        """By its setting; Optimus itself does not."""
        return self.layers

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """Marginal gains, until nothing fits or nothing gains."""
        demands = question.demands
        workers, servers = np.zeros(len(question), np.int64), np.zeros(len(question), np.int64)
        # Reservation charges the limit with the first worker and nothing after.
        reserved = demands.limit[:, : len(RESOURCES)] if question.reserved else np.zeros((len(question), 0))
        columns = SizingColumns(
            question.steps.terms,
            question.steps.ring_seconds,
            question.is_ring,
            question.remaining,
            demands.worker,
            demands.server,
            demands.limit * (1 + 1e-9),
            reserved,
            question.least_workers,
            question.capacity,
        )
        marginal_gains(columns, workers, servers)
        return SizingSolution(workers, servers)


class SizingColumns(NamedTuple):
    """A sizing problem as kernels take it: a row a job, in order of arrival; amounts by resource."""

    terms: Floats
    ring_seconds: Floats
    is_ring: Bools
    remaining: Floats
    """Iterations left."""
    worker: Floats
    """Held by one worker, then the numbers of workers and servers that it counts as; `server` likewise."""
    server: Floats
    limit: Floats
    """The owner's, on all that a job holds."""
    reserved: Floats
    """Charged once with the first worker; no columns: a job is charged what it holds."""
    least_workers: Ints
    capacity: Floats


@njit(cache=True)
def marginal_gains(jobs: SizingColumns, workers: Ints, servers: Ints) -> None:
    """Write how many workers and servers each job gets.

    The gain of one more is the cut of the completion time (seconds) over its dominant share of the capacity.
    """
    resources = len(jobs.capacity)
    left = jobs.capacity * (1 + 1e-9)
    has_reserved = jobs.reserved.shape[1] > 0
    heap = [(0.0, -1, 0)]
    heap.pop()
    for job in range(len(workers)):
        servers_first = 0 if jobs.is_ring[job] else 1
        if has_reserved:
            charge = jobs.reserved[job]
        else:
            charge = (jobs.least_workers[job] * jobs.worker[job] + servers_first * jobs.server[job])[
                :resources
            ]
        if (charge <= left).all():
            left -= charge
            workers[job] = jobs.least_workers[job]
            servers[job] = servers_first
            _offer(heap, job, jobs, workers, servers)
    while len(heap) > 0:
        negative, job, role = heapq.heappop(heap)
        need = jobs.worker[job] if role == 0 else jobs.server[job]
        held = workers[job] * jobs.worker[job] + servers[job] * jobs.server[job]
        # The gain of an offer changes when the other role grows: there is then a newer offer.
        gain = _gain(job, role, jobs, workers, servers)
        if -negative != gain or (held + need > jobs.limit[job]).any():
            continue
        if not has_reserved:
            if (need[:resources] > left).any():
                continue
            left -= need[:resources]
        if role == 0:
            workers[job] += 1
        else:
            servers[job] += 1
        _offer(heap, job, jobs, workers, servers)


@njit(cache=True)
def _offer(
    heap: list[tuple[float, int, int]], job: int, jobs: SizingColumns, workers: Ints, servers: Ints
) -> None:
    """One more worker and one more server of a job, each where it gains anything."""
    for role in range(2):
        gain = _gain(job, role, jobs, workers, servers)
        if gain > 0:
            heapq.heappush(heap, (-gain, job, role))


@njit(cache=True)
def _gain(job: int, role: int, jobs: SizingColumns, workers: Ints, servers: Ints) -> float:
    """Seconds cut by one more worker (0) or server (1) over its dominant share; 0 for a ring's server."""
    if role == 1 and jobs.is_ring[job]:
        return 0.0
    need = jobs.worker[job] if role == 0 else jobs.server[job]
    share = 0.0
    for resource in range(len(jobs.capacity)):
        if need[resource] > 0:
            share = max(share, need[resource] / jobs.capacity[resource])
    terms, ring_seconds = jobs.terms[job], jobs.ring_seconds[job]
    now = _step(terms, ring_seconds, workers[job], servers[job])
    then = _step(terms, ring_seconds, workers[job] + (1 - role), servers[job] + role)
    saved: float = (now[0] + now[1] - then[0] - then[1]) * jobs.remaining[job]
    return saved / max(share, 1e-12)


@njit(cache=True)
def _step(terms: Floats, ring_seconds: Floats, workers: int, servers: int) -> tuple[float, float]:
    """Seconds of compute and of what is exposed beside it; a ring's by its table."""
    compute, communication = sized_step(terms, workers, max(servers, 1))
    if len(ring_seconds) > 0:
        communication += ring_seconds[min(workers, len(ring_seconds)) - 1]
    return compute, communication
