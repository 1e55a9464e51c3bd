"""A scheduler under which each later start of a job has the CPUs and memory of its first one, really taken.

It is the scheduler that it is made from, for which a job that has begun requests those amounts and gains nothing from
more, wherever it starts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.ledger_arrays import MICRO
from muster.schedulers.actions import Preempt, actions_of
from muster.schedulers.contract import Decision, Jobs, Scheduler, Snapshot
from muster.speed.demands import ResourceProfiles
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import input_stage_seconds
from muster.workload.models import Model


@dataclass
class FirstGrants:
    """For one run: what jobs were granted is kept here and not in the scheduler's state."""

    scheduler: Scheduler
    grants: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Cores and GB a GPU, by job."""

    @property
    def name(self) -> str:
        return self.scheduler.name

    def describe(self) -> dict[str, Any]:
        return self.scheduler.describe()

    def initial(self, cluster: Cluster) -> Any:
        return self.scheduler.initial(cluster)

    def decide(self, snapshot: Snapshot, state: Any) -> tuple[Decision, Any]:
        """The decision under which no job that has begun gets other amounts.

        A job that runs keeps what it has where it is, so it requests nothing until a decision would move it.
        """
        index, ledger = snapshot.jobs.index, snapshot.ledger
        begun = index[~np.isnan(snapshot.table.facts["first_start"][index])].tolist()
        for job in begun:
            if job not in self.grants and ledger.holds(job):
                self.grants[job] = _least_per_gpu(ledger.holding(job))
        pinned = {job for job in begun if not ledger.holds(job)}
        while True:
            decision, after = self.scheduler.decide(self._with_grants(snapshot, sorted(pinned)), state)
            given = {
                action.job: _least_per_gpu(action.allocations)
                for action in actions_of(decision, ledger)
                if not isinstance(action, Preempt)
            }
            others = {job for job, amounts in given.items() if self.grants.get(job, amounts) != amounts}
            if others <= pinned:
                return decision, after
            pinned |= others

    def _with_grants(self, snapshot: Snapshot, pinned: Sequence[int]) -> Snapshot:
        """The snapshot in which these jobs request what they were granted, each with a model of its own."""
        asked, models = snapshot.table.asked.copy(), list(snapshot.table.models)
        for job in pinned:
            cpus, memory_gb = self.grants[job]
            asked["requested"][job, 1:3] = np.array([cpus, memory_gb]) * asked["gpus"][job] * MICRO
            model = models[asked["model"][job]]
            if model is not None:
                asked["model"][job] = len(models)
                models.append(no_faster_with_more(model, cpus, memory_gb))
        names = tuple(f"model {number}" for number in range(len(models)))
        table = replace(snapshot.table, asked=asked, models=tuple(models), model_names=names)
        return replace(
            snapshot,
            jobs=Jobs(table, snapshot.jobs.index, snapshot.now),
            table=table,
            resource_profiles=ResourceProfiles(model_table(models), snapshot.ledger.books.nodes),
        )


def _least_per_gpu(allocations: Iterable[NodeAllocation]) -> tuple[float, float]:
    """Cores and GB a GPU; of a gang on several nodes, where it has least."""
    cpus, memory_gb = zip(
        *((here.cpus / here.gpus, here.memory_gb / here.gpus) for here in allocations), strict=True
    )
    return round(min(cpus), 5), round(min(memory_gb), 5)


def no_faster_with_more(model: Model, cpus: float, memory_gb: float) -> Model:
    """A model that is as fast as this one up to so many cores and GB a GPU, and as fast as there with more."""
    table = model_table([model])
    storage = 0.0 if model.dataset is None else model.dataset.storage_gb_per_s
    cpu_points = tuple(sorted({min(point, cpus) for point in model.cpus_per_gpu}))
    memory_points = tuple(sorted({min(point, memory_gb) for point in model.memory_gb_per_gpu}))

    def speed(cores: float, gb: float) -> float:
        seconds = max(input_stage_seconds(table, 0, cores, gb, storage), model.compute_seconds)
        return model.seconds_per_iteration / seconds

    matrix = tuple(tuple(speed(cores, gb) for gb in memory_points) for cores in cpu_points)
    return replace(model, cpus_per_gpu=cpu_points, memory_gb_per_gpu=memory_points, speed=matrix)
