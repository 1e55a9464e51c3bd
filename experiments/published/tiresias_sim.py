"""The orders of Tiresias' simulator where it departs from its paper; for parity, not for use.

What it does was read from its program (SymbioticLab/Tiresias, Apache-2.0) and checked run by run.
"""

from dataclasses import dataclass
from math import ceil, inf
from typing import ClassVar

import numpy as np

from muster.cluster import Cluster
from muster.schedulers.contract import Bools, Floats, Ints, Jobs, Snapshot, State, Trigger
from muster.schedulers.queue_order.tiresias import TwoDGittins, TwoDLas


@dataclass(frozen=True)
class GittinsSim(TwoDGittins):
    """The gittins of Tiresias' simulator: smallest index first, by steps, renewed when jobs come, go or fall."""

    name: ClassVar[str] = "gittins-sim"
    honours: ClassVar[frozenset[str]] = frozenset()

    def inside(self, services: Floats, attained: Floats) -> Floats:
        """The index of the next known service that each will reach."""
        return stepwise_index(services, attained, self.delta)

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
        """When a job falls to another queue."""
        return TwoDLas.next_rank_change(self, snapshot, keys, running, waiting, memory)

    def quantum(self) -> float:
        """The setting."""
        return self.quantum_seconds


def stepwise_index(services: Floats, attained: Floats, delta: float) -> Floats:
    """P(done within delta) over expected total service of those, delta of the others; 0 beyond the last but one.

    Both as of just below the next of the `services`, ascending.
    """
    count = len(services)
    if count < 2:
        return np.zeros(len(attained))
    first = np.minimum(np.searchsorted(services, attained, side="right"), count - 1)
    reached = services[first] - 1
    soon = np.searchsorted(services, reached + delta, side="right")
    soon = np.where(reached + delta > services[-1] - 1, count - 1, soon)
    sums = np.append(0.0, np.cumsum(services))
    expected = sums[soon] - sums[first] + delta * (count - soon)
    index: Floats = np.where(attained > services[-2], 0.0, (soon - first) / np.maximum(expected, 1e-9))
    return index


_QUEUE = 1e9
"""Between the keys of one queue and the next."""


@dataclass(frozen=True)
class DlasSim(TwoDLas):
    """2d-las as Tiresias' simulator keeps its queues: lists; a job that falls or is promoted joins at the end.

    In a queue those that run come before those that wait. A fall is looked at when jobs come or go and at moments
    that take GPU-seconds for seconds, so often late; the waits that add up to a promotion are all since the last.
    """

    name: ClassVar[str] = "2d-las-sim"
    honours: ClassVar[frozenset[str]] = frozenset()

    def initial(self, cluster: Cluster) -> State:
        """Empty queues."""
        return {
            "queues": ((),) * (len(self.thresholds) + 1),
            "at": 0.0,
            "keys": {},
            "promoted": {},
            "waited": {},
        }

    def keys(self, snapshot: Snapshot, state: State) -> tuple[Floats, State]:
        """Rank by queue and place in it, renewed at their events only."""
        jobs, index = snapshot.jobs, snapshot.jobs.index.tolist()
        known = all(job in state["keys"] for job in index)
        since = snapshot.now - state["at"]
        if known and not snapshot.triggers & (Trigger.ARRIVAL | Trigger.COMPLETION):
            if since < self._jump(snapshot, state, jobs.running):
                return np.array([state["keys"][job] for job in index]), state
        running = dict(zip(index, jobs.running.tolist(), strict=True))
        ran = dict(zip(index, jobs.run_seconds.tolist(), strict=True))
        executed = {job: ran[job] - state["promoted"].get(job, 0.0) for job in index}
        gpus = dict(zip(index, self._paces(jobs), strict=True))
        queue_of = {job: queue for queue, members in enumerate(state["queues"]) for job in members}
        waited = {job: state["waited"].get(job, 0.0) for job in index}
        queues = [
            sorted((job for job in members if job in running), key=lambda job: not running[job])
            for members in state["queues"]
        ]
        queues[0] += [job for job in index if job not in queue_of]
        promoted = {job: seconds for job, seconds in state["promoted"].items() if job in running}
        for job in index:
            queue = queue_of.get(job, 0)
            if running[job]:
                if queue < len(self.thresholds) and executed[job] * gpus[job] >= self.thresholds[queue]:
                    queues[queue].remove(job)
                    queues[queue + 1].append(job)
            elif executed[job] > 0:
                waited[job] += since
                if queue > 0 and waited[job] >= self.promote_knob * executed[job]:
                    queues[queue].remove(job)
                    queues[0].append(job)
                    promoted[job], waited[job] = ran[job], 0.0
        service = {job: executed[job] * gpus[job] for job in index}
        queues = [self.arranged(snapshot, members, service) for members in queues]
        keys = {
            job: queue * _QUEUE + place for queue, line in enumerate(queues) for place, job in enumerate(line)
        }
        memory = {
            "queues": tuple(map(tuple, queues)),
            "at": snapshot.now,
            "keys": keys,
            "promoted": promoted,
            "waited": waited,
        }
        return np.array([keys[job] for job in index]), memory

    def arranged(self, snapshot: Snapshot, members: list[int], service: dict[int, float]) -> list[int]:
        """A queue in the order in which it is served."""
        return members

    def quantum(self) -> float:
        """The setting."""
        return self.quantum_seconds

    def _paces(self, jobs: Jobs) -> list[float]:
        """What a second of running counts."""
        return jobs.requested_gpus.tolist() if self.service == "gpu-seconds" else [1.0] * len(jobs)

    def _jump(self, snapshot: Snapshot, state: State, running: Bools) -> float:
        """Seconds after their last event to when they look at queues again, with these jobs running."""
        jobs, since = snapshot.jobs, snapshot.now - state["at"]
        queue_of = {job: queue for queue, members in enumerate(state["queues"]) for job in members}
        columns = (jobs.index.tolist(), running.tolist(), jobs.run_seconds.tolist(), self._paces(jobs))
        soonest = inf
        for job, runs, ran, gpus in zip(*columns, strict=True):
            queue = queue_of.get(job)
            if queue is None:
                continue
            executed = ran - state["promoted"].get(job, 0.0) - since * runs
            if runs and queue < len(self.thresholds):
                soonest = min(soonest, ceil((self.thresholds[queue] - executed) / gpus))
            elif not runs and queue and executed > 0 and self.promote_knob < inf:
                left = self.promote_knob * executed - state["waited"].get(job, 0.0)
                soonest = min(soonest, left if left > 0 else inf)
        return soonest

    def next_rank_change(
        self, snapshot: Snapshot, keys: Floats, running: Ints, waiting: Ints, memory: State
    ) -> float:
        """When they look at queues again."""
        if not len(waiting) or not len(running):
            return inf
        holds = np.zeros(len(snapshot.jobs), np.bool_)
        holds[running] = True
        return float(memory["at"] + self._jump(snapshot, memory, holds))


@dataclass(frozen=True)
class DlasGittinsSim(DlasSim, TwoDGittins):
    """2d-gittins as Tiresias' simulator does it: its queues, in each the largest index first, then by arrival."""

    name: ClassVar[str] = "2d-gittins-sim"

    def arranged(self, snapshot: Snapshot, members: list[int], service: dict[int, float]) -> list[int]:
        """By the index of the next known service that each will reach."""
        reached = np.array([service[job] for job in members])
        ended = self.completed(snapshot.table, np.arange(len(snapshot.table)))
        services = np.array(self.services) if self.services else ended
        index = stepwise_index(np.sort(services), reached, self.delta)
        return [job for _, job in sorted(zip((-index).tolist(), members, strict=True))]
