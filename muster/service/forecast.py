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
from muster.service.request import JobRequest
from muster.service.store.rows import AllocationInterval, JobRow, State
from muster.simulation import Options, simulate
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
    competing = [row for row in rows if row.state in (State.QUEUED, State.RUNNING)]
    if len(competing) > _MOST_JOBS:
        raise NoForecast("the queue is too long for a quick simulation")
    cluster = _without(status.cluster, drained)
    living = sorted(
        (row for row in competing if next(misfits(row.request, cluster), None) is None),
        key=lambda row: (row.state is not State.RUNNING, row.id),
    )
    if not living:
        raise NoForecast("no waiting job could start")
    gpus_held: dict[int, float] = defaultdict(float)
    for interval in held:
        gpus_held[interval.job] += interval.allocation.gpus
    left = [_seconds_left(row, status, _usual_over(row, gpus_held[row.id], cluster)) for row in living]
    seconds = [GUESSED_SECONDS if known is None else known for known in left]
    requests = [row.request for row in living]
    columns = trace_columns(living, [0.0] * len(living), seconds)
    attained = np.array([row.attained_gpu_seconds for row in living])
    try:
        models = status.models()
        trace = trace_of(columns, "the queue", models)
        options = Options(
            end_at_limit=True,
            skip_impossible=True,
            round_seconds=_coarse_turn(requests, seconds, status),
            restart_cost_seconds=status.restart_cost_seconds,
        )
        policy = copy.deepcopy(status.policy)
        run = simulate(trace, cluster, policy, options, models=models, attained=attained)
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


def _without(cluster: Cluster, drained: Collection[str]) -> Cluster:
    """The nodes that are left, in the racks that are."""
    left = [node for node in cluster.nodes if node.name not in drained]
    if not any(node.gpus for node in left):
        raise NoForecast("all nodes are drained")
    racks = sorted({node.rack for node in left})
    nodes = tuple(replace(node, rack=racks.index(node.rack)) for node in left)
    return replace(cluster, nodes=nodes, racks=tuple(cluster.racks[rack] for rack in racks))


def _coarse_turn(
    requests: Sequence[JobRequest], seconds: Sequence[float], status: DaemonStatus
) -> float | None:
    """Weeks of work in turns of a minute would keep scheduler and asker waiting; None: the scheduler's own turns."""
    work = sum(
        request.gpus * request.gpu_share * alone for request, alone in zip(requests, seconds, strict=True)
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


def _seconds_left(row: JobRow, status: DaemonStatus, usual_over: float) -> float | None:
    """Until its work is done on the GPUs that it asks for, or its time limit is over; None where nothing is known."""
    work, limit = _seconds_of_work(row, status), row.request.time_limit_seconds
    if work is not None:
        work *= usual_over
    if limit is None:
        return work
    until_limit = max(limit - row.run_seconds, _LEAST_SECONDS)
    return until_limit if work is None else min(work, until_limit)


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
