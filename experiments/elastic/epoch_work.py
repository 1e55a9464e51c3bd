"""Work in epochs of changing efficiency, as in Sia's simulator: the law of progress of its world, for Muster's engine.

A job's progress counts in iterations of its initial batch. Its speed is constant within an epoch; an epoch ends at a
whole second after the job's last change, and one whose end is rounded down to the end of a round ends just after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Protocol

import numpy as np

from experiments.elastic.batches import Batch, fixed_batch, iteration_seconds
from experiments.elastic.beliefs import LearnedSpeeds, Limits
from experiments.elastic.efficiency import Application
from experiments.elastic.step_times import Placement, StepTimes, closest
from muster.cluster import Cluster
from muster.cluster.ledger import Ledger, NodeAllocation
from muster.cluster.ledger_arrays import Ints
from muster.workload.jobs import JobTable

_DIGITS, _SAME_INSTANT = 6, 1e-6


@dataclass(frozen=True)
class SiaWorld:
    """What jobs do on which GPUs."""

    applications: Mapping[str, Application]
    times: Mapping[tuple[str, str], StepTimes]
    """By application and type of GPU."""
    round_seconds: float


@dataclass(frozen=True)
class Place:
    """What a job runs on; another one costs it a restart."""

    placement: Placement
    gpu_type: str


class BatchRule(Protocol):
    """Which batch a job takes."""

    def batch(self, job: int, now: float, epoch: int, place: Place) -> Batch:
        """The batch from now on."""

    def next_change(self, job: int, now: float) -> float:
        """When it may change while nothing else does; inf: never."""


class FixedBatches:
    """The requested batch, whatever the job holds."""

    def __init__(self, table: JobTable, world: SiaWorld) -> None:
        self._world = world
        self._apps = [world.applications[name] for name in table.model_names]
        self._app_of = table.asked["model"].tolist()
        self._requested = table.sized["batch"].astype(np.int64).tolist()
        self._known: dict[tuple[int, int, Place], Batch] = {}

    def batch(self, job: int, now: float, epoch: int, place: Place) -> Batch:
        """The requested one, as the placement can take it."""
        key = self._app_of[job], self._requested[job], place
        if key not in self._known:
            app = self._apps[key[0]]
            times = self._world.times[app.name, place.gpu_type]
            self._known[key] = fixed_batch(key[1], place.placement, times, app.initial_batch, app.max_batch)
        return self._known[key]

    def next_change(self, job: int, now: float) -> float:
        """Never."""
        return inf


class AdaptiveBatches:
    """The batch that a job believes to give it the most progress, chosen at each round, place and epoch."""

    def __init__(self, table: JobTable, world: SiaWorld, learned: LearnedSpeeds) -> None:
        self._world, self._learned = world, learned
        self._apps = [world.applications[table.model_names[model]] for model in table.asked["model"].tolist()]

    def batch(self, job: int, now: float, epoch: int, place: Place) -> Batch:
        """The best one of the job's model; the initial batch, or the least that fills its GPUs, without one."""
        app, gpus = self._apps[job], sum(place.placement)
        times = self._world.times[app.name, place.gpu_type]
        if not self._learned.knows(job, place.gpu_type):
            least = max(app.initial_batch, app.min_batch_per_gpu * gpus)
            return fixed_batch(least, place.placement, times, app.initial_batch, app.max_batch)
        limits = Limits(app.max_batch, int(times.largest_batch(place.placement)))
        _, best = self._learned.best(job, gpus, len(place.placement), place.gpu_type, limits)
        fits = times.largest_batch_of_gpus(gpus), app.max_batch // (gpus * (best.accumulation + 1))
        return best._replace(per_gpu=int(min(best.per_gpu, *fits)))

    def next_change(self, job: int, now: float) -> float:
        """Just after the end of the round."""
        rounds = self._world.round_seconds
        return nextafter((now // rounds + 1) * rounds, inf)


class EpochWork:
    """The progress of a run's jobs."""

    def __init__(
        self,
        table: JobTable,
        cluster: Cluster,
        world: SiaWorld,
        batches: BatchRule,
        learned: LearnedSpeeds | None = None,
        *,
        moves_pause: bool = False,
    ) -> None:
        """`moves_pause`: a job also pauses where it moves to as many GPUs on each of other nodes."""
        self._world, self._batches = world, batches
        self._moves_pause = moves_pause
        self.size_speeds = learned
        self._facts = table.facts
        apps = [world.applications[name] for name in table.model_names]
        self._app = [apps[model] for model in table.asked["model"].tolist()]
        self._nodes = cluster.nodes
        jobs = len(table)
        self.epoch = np.zeros(jobs, np.int64)
        self.places: dict[int, Place] = {}
        """Of the running jobs."""
        self._nodes_of: dict[int, tuple[int, ...]] = {}
        """Where each job runs, or ran last."""
        self.batch_of: dict[int, Batch] = {}
        self._resumes = np.zeros(jobs)
        self._epoch_ends = np.full(jobs, inf)
        self._changes = np.full(jobs, inf)
        progress = np.array([app.ends[-1] for app in self._app])
        longer = progress / table.asked["iterations"]
        for field in ("iterations", "believed"):
            table.asked[field] *= longer

    def next_change(self) -> float:
        """The next end of an epoch, or change of a batch."""
        return float(self._changes.min())

    def due(self, now: float) -> Ints:
        """The jobs whose epoch ends or whose batch changes by now."""
        return np.flatnonzero(self._changes <= now)

    def rate(self, job: int, now: float, ledger: Ledger) -> None:
        """Write a job's speed, the end of its pause and its completion time into its status."""
        shares = ledger.holding(job)
        if not shares:
            self.places.pop(job, None)
            self._changes[job] = self._epoch_ends[job] = inf
            return
        fact, app = self._facts[job], self._app[job]
        place = self._place(shares)
        self._move(job, now, place, tuple(share.node for share in shares))
        fact["resumes"] = self._resumes[job]
        if self._epoch_ends[job] <= now:
            fact["done"] = app.ends[self.epoch[job]]
            self.epoch[job] += 1
        epoch = int(self.epoch[job])
        batch = self.batch_of[job] = self._batches.batch(job, now, epoch, place)
        self._learn(job, now)
        times = self._world.times[app.name, place.gpu_type]
        seconds = iteration_seconds(times, place.placement, batch) * app.slowdown
        fact["rate"] = app.gain(batch.total(sum(place.placement)), epoch) / seconds
        begins = round(max(now, float(fact["resumes"])), _DIGITS)  # not just after the end of a round
        ends = self._rounded(begins, (app.ends[epoch] - float(fact["done"])) / float(fact["rate"]))
        last = epoch + 1 == app.epochs
        fact["finish"], self._epoch_ends[job] = (ends, inf) if last else (inf, ends)
        pause_ends = nextafter(self._resumes[job], inf) if self._resumes[job] >= now else inf
        self._changes[job] = min(
            float(self._epoch_ends[job]), self._batches.next_change(job, now), float(pause_ends)
        )

    def _move(self, job: int, now: float, place: Place, nodes: tuple[int, ...]) -> None:
        """A job has a place on these nodes from now on, after a pause where that costs it a restart."""
        moves = self._moves_pause and self._nodes_of.get(job) != nodes
        if self.places.get(job) != place or moves:
            self._resumes[job] = now + self._app[job].restart_seconds
            if self.size_speeds is not None:
                self.size_speeds.starts[job] += 1
        self.places[job], self._nodes_of[job] = place, nodes

    def _learn(self, job: int, now: float) -> None:
        """A job that works from now on measures how fast its configuration is, and its gradient."""
        if self.size_speeds is not None and self._resumes[job] < now:
            place, batch = self.places[job], self.batch_of[job]
            self.size_speeds.learn(job, place.placement, place.gpu_type, batch.per_gpu)
            gradient = self._app[job].gradient(batch.total(sum(place.placement)), int(self.epoch[job]))
            self.size_speeds.see_gradient(job, gradient)

    def _place(self, shares: Sequence[NodeAllocation]) -> Place:
        """Where a job runs; on several types of GPU it goes as on the fullest nodes of the cluster's first type.

        The authors' law gives such gangs no speed, and no recorded run has one.
        """
        placement = tuple(len(share.gpu_ids) for share in shares)
        types = {self._nodes[share.node].gpu_type for share in shares}
        if len(types) == 1:
            return Place(placement, types.pop())
        first = self._nodes[0]
        return Place(closest(sum(placement), first.gpus), first.gpu_type)

    def _rounded(self, begins: float, seconds: float) -> float:
        """The moment after so many whole seconds; just after the end of a round if that is rounded down to it."""
        ends = begins + round(seconds)
        tick = round(ends / self._world.round_seconds) * self._world.round_seconds
        rounded_down = begins + seconds > tick
        return nextafter(max(ends, tick), inf) if abs(ends - tick) < _SAME_INSTANT and rounded_down else ends
