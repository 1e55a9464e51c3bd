"""What a simulation of the queue begins with: jobs that compete, nodes that are left, how long jobs still take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Scheduler
from muster.service.daemon_status import DaemonStatus
from muster.service.fitting import misfits
from muster.service.honoured import unserved
from muster.service.simulated_models import seconds_at_share, seconds_on, times_usual
from muster.service.store.rows import AllocationInterval, JobRow, State
from muster.workload.models import Model

GUESSED_SECONDS = 3600.0
"""Left of a job of which nothing is known: said wherever an estimate goes by it."""
_MOST_JOBS = 2000
_MOST_TURNS = 2000
_LEAST_SECONDS = 1.0
_MOST_SECONDS = 366 * 86_400.0
"""Longer jobs are simulated as this long, so that one that never ends makes no turn too coarse for the others."""


class NoEstimate(Exception):
    """Says why there is none."""


def competing(rows: Sequence[JobRow], cluster: Cluster, policy: Scheduler) -> list[JobRow]:
    """Those that run or wait, fit on the cluster and are served, running ones first; NoEstimate where there are too
    many.
    """
    found = [row for row in rows if row.state in (State.QUEUED, State.RUNNING)]
    if len(found) > _MOST_JOBS:
        raise NoEstimate(
            f"the queue is too long for a quick simulation, which takes up to {_MOST_JOBS:,} jobs"
        )
    return sorted(
        (
            row
            for row in found
            if not any(misfits(row.request, cluster, fixed_gpus=row.fixed_gpus))
            and not any(unserved(row.request, policy))
        ),
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


def held_by_job(
    held: Collection[AllocationInterval], cluster: Cluster
) -> Mapping[int, list[NodeAllocation[str]]]:
    """Return what each job holds on nodes of the cluster with GPUs."""
    found: dict[int, list[NodeAllocation[str]]] = defaultdict(list)
    for interval in held:
        if interval.allocation.gpus > 0 and interval.allocation.node in cluster.node_index:
            found[interval.job].append(interval.allocation)
    return found


def seconds_left(row: JobRow, work: float | None) -> float | None:
    """Until its work is done or its time limit is over, on the GPUs that it asks for; None where nothing is known.

    Within its limit a job that changes its size does as much as on the most GPUs that it may have.
    """
    limit = row.request.time_limit_seconds
    if limit is None:
        return work
    until_limit = max(limit - row.run_seconds, _LEAST_SECONDS)
    if row.request.changes_size:
        until_limit *= row.gpu_bounds[1] / row.usual_gpus
    return until_limit if work is None else min(work, until_limit)


def seconds_of_work(
    row: JobRow, model: Model | None, held: Sequence[NodeAllocation[str]], cluster: Cluster, now: float
) -> float | None:
    """Until the work of a job is done on the GPUs that it asks for; None where it is not known.

    At the speed that it last reported, else at its model's with a proportional share.
    """
    if row.request.steps is None:
        return None
    steps = max(row.request.steps - row.steps_done, 0.0)
    if row.steps_per_second > 0:
        work = steps / row.steps_per_second * times_usual(row, model, held, cluster)
    elif model is None:
        return None
    else:
        silent = _silent_for(row, now)
        done = silent / seconds_on(row, model, held, cluster) if held and silent else 0.0
        work = (steps - done) * seconds_at_share(model, cluster)
    return min(max(work, _LEAST_SECONDS), _MOST_SECONDS)


def _silent_for(row: JobRow, now: float) -> float:
    """Return the seconds of the present start if it has not reported; a job reports every few seconds or never."""
    silent = row.state is State.RUNNING and row.steps_done <= row.steps_before
    return now - row.last_start if silent and row.last_start is not None else 0.0
