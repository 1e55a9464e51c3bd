"""Tiresias' two-dimensional orders (NSDI'19 §3): attained service in queues, by start or by Gittins index inside."""

from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal

import numpy as np

from muster.cluster import Cluster
from muster.schedulers.contract import Floats, Ints, Snapshot, State
from muster.schedulers.parts import Order, setting
from muster.schedulers.queue_order.gone import gone_since
from muster.workload.jobs import COMPLETED, JobTable

_SLOWEST = 1e-9
"""GPU-seconds a second of a job without GPUs: it never falls."""
_REMEMBERED = 10_000
"""Completed jobs of which 2d-gittins remembers the service."""


@dataclass(frozen=True)
class TwoDLas(Order):
    """Tiresias' 2D-LAS: queues by attained service, in a queue the job that started first goes first."""

    name: ClassVar[str] = "2d-las"

    thresholds: tuple[float, ...] = setting(
        (3250.0, 7200.0), "service at which a job falls to the next queue, ascending"
    )
    service: Literal["gpu-seconds", "seconds"] = setting("gpu-seconds", "what service is counted in")
    promote_knob: float = setting(
        inf, "a job that has waited so many times the time it ran goes back to the first queue"
    )
    quantum_seconds: float = setting(1.0, "jobs fall and rise at multiples of this after a decision")

    def __post_init__(self) -> None:
        if list(self.thresholds) != sorted(set(self.thresholds)) or not all(t > 0 for t in self.thresholds):
            raise ValueError("thresholds: allowed: ascending numbers above 0")
        if not (self.quantum_seconds > 0 and self.promote_knob > 0):
            raise ValueError("quantum_seconds and promote_knob: allowed: numbers above 0")

    def initial(self, cluster: Cluster) -> State:
        """No job promoted yet; by job, the service it had when it was."""
        return {}

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Rank by queue, then by first start, those that never ran last; ties by arrival."""
        service, promoted = self._counted(snapshot, state)
        started = snapshot.table.facts["first_start"][snapshot.jobs.index]
        return self._ranks(service, np.where(np.isnan(started), inf, started)), promoted

    def _counted(self, snapshot: Snapshot, promoted: State) -> tuple[Floats, State]:
        """The service by which each job is in a queue, and what promoted jobs had when they were."""
        service = self._service(snapshot)
        if self.promote_knob < inf:
            promoted = self._promoted(snapshot, promoted, service)
            service = service - np.array([promoted.get(job, 0.0) for job in snapshot.jobs.index.tolist()])
        return service, promoted

    def _ranks(self, service: Floats, inside: Floats) -> Floats:
        """The place of each job, by queue, then by a key."""
        queue = np.searchsorted(np.array(self.thresholds), service, side="right")
        ranks = np.empty(len(queue))
        ranks[np.lexsort((inside, queue))] = np.arange(len(queue))
        return ranks

    def _service(self, snapshot: Snapshot) -> Floats:
        return snapshot.jobs.attained_service if self.service == "gpu-seconds" else snapshot.jobs.run_seconds

    def _promoted(self, snapshot: Snapshot, state: State, service: Floats) -> State:
        """The state with those whose wait has become too long."""
        jobs, index = snapshot.jobs, snapshot.jobs.index.tolist()
        ran = jobs.run_seconds
        known = {job: state[job] for job in index if job in state}
        for at in np.flatnonzero(jobs.waiting & (ran > 0)).tolist():
            fallen = service[at] - known.get(index[at], 0.0) >= self.thresholds[0]
            if fallen and snapshot.now - jobs.last_stop[at] >= int(ran[at] * self.promote_knob):
                known[index[at]] = float(service[at])
        return known

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
        """When the next running job falls to another queue; any time where jobs may be promoted."""
        if not len(waiting) or not len(running):
            return inf
        if self.promote_knob < inf:
            return -inf
        levels = np.append(np.array(self.thresholds), inf)
        service = self._service(snapshot)[running]
        goal = levels[np.searchsorted(levels, service, side="right")]
        runs = snapshot.jobs.at(running)
        pace = np.maximum(np.where(runs.held_gpus > 0, runs.held_gpus, runs.requested_gpus), _SLOWEST)
        if self.service == "seconds":
            pace = np.ones(len(running))
        return float((snapshot.now + (goal - service) / pace).min())

    def quantum(self) -> float:
        """The setting."""
        return self.quantum_seconds


@dataclass(frozen=True)
class TwoDGittins(TwoDLas):
    """Tiresias' 2D-Gittins: as 2d-las, but in a queue by the chance to be done soon for little service."""

    name: ClassVar[str] = "2d-gittins"

    services: tuple[float, ...] = setting(
        (), "total services of past jobs, to learn from; left out: of the last 10,000 completed"
    )
    delta: float = setting(3250.0, "service ahead that the index looks at")

    def initial(self, cluster: Cluster) -> State:
        """No job promoted, and none seen that could teach anything."""
        return {"promoted": {}, "seen": np.zeros(0, np.int64), "services": np.zeros(0)}

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Rank by queue, then by `inside`; ties by arrival."""
        service, promoted = self._counted(snapshot, state["promoted"])
        ended = self._services(snapshot, state)
        inside = self.inside(np.sort(np.array(self.services) if self.services else ended), service)
        return self._ranks(service, inside), {
            "promoted": promoted,
            "seen": snapshot.jobs.index,
            "services": ended,
        }

    def inside(self, services: Floats, attained: Floats) -> Floats:
        """Minus the Gittins index of what each has attained; `services` are those of past jobs, ascending."""
        return -gittins_index(services, attained, self.delta)

    def _services(self, snapshot: Snapshot, state: State) -> Floats:
        """Total services of the newest jobs that were completed."""
        gone = gone_since(snapshot, state["seen"])
        return np.append(state["services"], self.completed(snapshot.table, gone))[-_REMEMBERED:]

    def completed(self, table: JobTable, jobs: Ints) -> Floats:
        """Total services of those of some jobs that are completed."""
        facts = table.facts[jobs]
        services = facts["attained"] if self.service == "gpu-seconds" else facts["run"]
        completed: Floats = services[facts["state"] == COMPLETED]
        return completed

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
        """Any time: an index changes with every second of service."""
        return -inf if len(waiting) and len(running) else inf

    def quantum(self) -> float:
        """Indices change slowly beside the service that they look ahead."""
        return max(self.quantum_seconds, self.delta / 100.0)


def gittins_index(services: Floats, attained: Floats, delta: float) -> Floats:
    """P(done within delta) over expected service until then, given the attained; 0 beyond all known services.

    `services` are the total services of past jobs, ascending.
    """
    first = np.searchsorted(services, attained, side="right")
    soon = np.searchsorted(services, attained + delta, side="right")
    alive = len(services) - first
    sums = np.append(0.0, np.cumsum(services))
    spent = sums[soon] - sums[first] - attained * (soon - first) + delta * (len(services) - soon)
    index: Floats = np.divide(
        soon - first, spent, out=np.zeros(len(attained)), where=(alive > 0) & (spent > 0)
    )
    return index
