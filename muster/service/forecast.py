"""Forecasts the queue: a simulation of its present state with the same scheduler on the same nodes."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import structlog

from muster.cluster import Cluster
from muster.problems import InputError
from muster.service.as_trace import trace_columns
from muster.service.daemon_status import DaemonStatus
from muster.service.fitting import misfits
from muster.service.learned_sizes import LearnedSizes
from muster.service.store.rows import AllocationInterval, JobRow, State
from muster.simulation import Options, simulate
from muster.simulation.simulate import Continued
from muster.speed.input_pipeline import model_table
from muster.speed.rates import reference_seconds
from muster.workload.trace import trace_of

GUESSED_SECONDS = 3600.0
"""Left of a job whose owner did not say its steps: said wherever a forecast is shown."""
_MOST_JOBS = 2000
_MOST_TURNS = 2000
_LEAST_SECONDS = 1.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Forecast:
    """When jobs start and end if no more are submitted; seconds from now."""

    starts: Mapping[int, float]
    ends: Mapping[int, float]
    guessed: int
    """Jobs whose remaining time had to be guessed."""


class NoForecast(Exception):
    """Says why there is none."""


def forecast(
    rows: Sequence[JobRow],
    status: DaemonStatus,
    drained: Collection[str] = (),
    held: Collection[AllocationInterval] = (),
) -> Forecast:
    """The forecast of these living jobs; NoForecast where there are too many for a quick answer, or none can be made.
    Nothing starts on the nodes that are drained. `held` is what running jobs hold: the speeds that they report are for
    it.

    Those that run come first, so that a scheduler which leaves running jobs alone leaves them where they are. The
    scheduler is asked as a copy: the controller may ask the real one meanwhile.
    """
    cluster = cluster_without(status.cluster, drained)
    living = competing(rows, cluster)
    if not living:
        raise NoForecast("no waiting job could start")
    left = [
        seconds_left(row, work)
        for row, work in zip(living, seconds_of_work(living, status, held), strict=True)
    ]
    seconds = [GUESSED_SECONDS if known is None else known for known in left]
    columns = trace_columns(living, [0.0] * len(living), seconds)
    continued = Continued(np.array([row.attained_gpu_seconds for row in living]))
    try:
        models = status.models()
        trace = trace_of(columns, "the queue", models)
        options = Options(
            end_at_limit=True,
            skip_impossible=True,
            round_seconds=coarse_turn(living, seconds, status),
            restart_cost_seconds=status.restart_cost_seconds,
        )
        policy = copy.deepcopy(status.policy)
        run = simulate(trace, cluster, policy, options, models=models, continued=continued)
    except Exception as error:
        # Of the scheduler, which may be a user's code. Its message goes to the log alone, as it may name any job.
        log.warning("no forecast", scheduler=status.scheduler, exc_info=True)
        if isinstance(error, InputError):
            raise NoForecast("the queue cannot be simulated") from None
        raise NoForecast(f"the scheduler fails in a simulation ({type(error).__name__})") from None
    known = run.record.jobs.filter(pl.col("start_seconds").is_not_null())
    ids = known["job_id"].cast(pl.Int64).to_list()
    return Forecast(
        starts=dict(zip(ids, known["start_seconds"].to_list(), strict=True)),
        ends={
            job: end
            for job, end in zip(ids, known["finish_seconds"].to_list(), strict=True)
            if end is not None
        },
        guessed=left.count(None),
    )


def competing(rows: Sequence[JobRow], cluster: Cluster) -> list[JobRow]:
    """Those that run or wait and fit on the cluster, running ones first; NoForecast where there are too many."""
    found = [row for row in rows if row.state in (State.QUEUED, State.RUNNING)]
    if len(found) > _MOST_JOBS:
        raise NoForecast(
            f"the queue is too long for a quick simulation, which takes up to {_MOST_JOBS:,} jobs"
        )
    return sorted(
        (row for row in found if next(misfits(row.request, cluster), None) is None),
        key=lambda row: (row.state is not State.RUNNING, row.id),
    )


def cluster_without(cluster: Cluster, drained: Collection[str]) -> Cluster:
    """The nodes that are left, in the racks that are."""
    left = [node for node in cluster.nodes if node.name not in drained]
    if not any(node.gpus for node in left):
        raise NoForecast("all nodes are drained")
    racks = sorted({node.rack for node in left})
    nodes = tuple(replace(node, rack=racks.index(node.rack)) for node in left)
    return replace(cluster, nodes=nodes, racks=tuple(cluster.racks[rack] for rack in racks))


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
        found.append(work and work * _usual_over(row, gpus_held[row.id], status.cluster))
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
