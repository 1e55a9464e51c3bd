"""What a simulation of the queue begins with: jobs that compete, nodes that are left, how long jobs still take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from muster.cluster import Cluster
from muster.service.daemon_status import DaemonStatus
from muster.service.fitting import misfits
from muster.service.learned_sizes import LearnedSizes
from muster.service.store.rows import AllocationInterval, JobRow, State
from muster.speed.input_pipeline import model_table
from muster.speed.rates import reference_seconds

GUESSED_SECONDS = 3600.0
"""Left of a job of which nothing is known: said wherever an estimate goes by it."""
_MOST_JOBS = 2000
_MOST_TURNS = 2000
_LEAST_SECONDS = 1.0
_MOST_SECONDS = 366 * 86_400.0
"""Longer jobs are simulated as this long, so that one that never ends makes no turn too coarse for the others."""


class NoEstimate(Exception):
    """Says why there is none."""


def competing(rows: Sequence[JobRow], cluster: Cluster) -> list[JobRow]:
    """Those that run or wait and fit on the cluster, running ones first; NoEstimate where there are too many."""
    found = [row for row in rows if row.state in (State.QUEUED, State.RUNNING)]
    if len(found) > _MOST_JOBS:
        raise NoEstimate(
            f"the queue is too long for a quick simulation, which takes up to {_MOST_JOBS:,} jobs"
        )
    return sorted(
        (row for row in found if next(misfits(row.request, cluster), None) is None),
        key=lambda row: (row.state is not State.RUNNING, row.id),
    )


def cluster_without(cluster: Cluster, closed: Collection[str]) -> Cluster:
    """The nodes that are left, if any has GPUs."""
    if not any(node.gpus for node in cluster.nodes if node.name not in closed):
        raise NoEstimate("all nodes are drained or away")
    return cluster.without(closed)


def coarse_turn(rows: Sequence[JobRow], seconds: Sequence[float], status: DaemonStatus) -> float | None:
    """Weeks of work in turns of a minute would keep scheduler and asker waiting; None: the scheduler's own turns."""
    work = sum(
        row.request.gpus * row.request.gpu_share * alone for row, alone in zip(rows, seconds, strict=True)
    )
    turn = (max(seconds) + work / status.cluster.total_gpus) / _MOST_TURNS
    return turn if turn > status.round_seconds else None


def _usual_over(row: JobRow, gpus: float, cluster: Cluster) -> float:
    """How many times as long as on the GPUs that it holds a step takes on those that it asks for.

    By the sizes that it has shown; else it is as fast as its GPUs are many.
    """
    if not row.request.changes_size or row.steps_per_second <= 0 or gpus <= 0:
        return 1.0
    learned = LearnedSizes()
    learned.learn(row)
    known = learned.usual_over(row, round(gpus), cluster.most_gpus_per_node)
    return gpus / row.usual_gpus if known is None else known


def seconds_left(row: JobRow, work: float | None) -> float | None:
    """Until its work is done or its time limit is over; None where nothing is known."""
    limit = row.request.time_limit_seconds
    if limit is None:
        return work
    until_limit = max(limit - row.run_seconds, _LEAST_SECONDS)
    return until_limit if work is None else min(work, until_limit)


def seconds_of_work(
    rows: Sequence[JobRow], status: DaemonStatus, held: Collection[AllocationInterval]
) -> list[float | None]:
    """Until the work of each job is done on the GPUs that it asks for; None where it is not known."""
    gpus_held: dict[int, float] = defaultdict(float)
    for interval in held:
        gpus_held[interval.job] += interval.allocation.gpus
    found = []
    for row in rows:
        work = _seconds_of_work(row, status)
        factor = _usual_over(row, gpus_held[row.id], status.cluster)
        found.append(work and min(work * factor, _MOST_SECONDS))
    return found


def _seconds_of_work(row: JobRow, status: DaemonStatus) -> float | None:
    """Of its work, at the speed it last reported, else at its model's with a proportional share."""
    if row.request.steps is None:
        return None
    steps = max(row.request.steps - row.steps_done, 0.0)
    if row.steps_per_second > 0:
        return max(steps / row.steps_per_second, _LEAST_SECONDS)
    model = status.models().get((row.request.model or "").lower())
    if model is None:
        return None
    cluster = status.cluster
    share = np.array([cluster.total_cpus, cluster.total_memory_gb, cluster.total_storage_gb_per_s])
    seconds = reference_seconds(model_table([model]), 0, share / cluster.total_gpus)
    return max(steps * seconds, _LEAST_SECONDS)
