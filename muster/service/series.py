"""How fast a job has been and should be on what it has had, and where its time goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Any

from muster.cluster.ledger import NodeAllocation
from muster.service.daemon_status import DaemonStatus
from muster.service.store import Store
from muster.service.store.rows import JobRow, State, StepsDone
from muster.speed.gains import Stages, stages_of


def series_of(row: JobRow, store: Store, status: DaemonStatus) -> dict[str, Any]:
    """Each start of a job with its speed, measured and as its model predicts it, and its time, as `JobSeries`."""
    held = defaultdict(list)
    for interval in store.allocation_intervals(row.id):
        held[interval.epoch, interval.since, interval.until].append(interval.allocation)
    noted = sorted(set(store.steps_done(row.id)))
    starts, newest = [], None
    for (epoch, since, until), here in sorted(held.items(), key=lambda entry: entry[0][1]):
        newest = _stages(row, here, status)
        reports = [one for one in noted if one.epoch == epoch]
        first_step = row.first_step if epoch == row.epoch else None
        works_from = reports[0].time if reports else first_step
        starts.append(
            {
                "since": store.origin + since,
                "until": None if until is None else store.origin + until,
                "nodes": [one.node for one in here],
                "gpus": sum(one.gpus for one in here),
                "works_from": None if works_from is None else store.origin + max(works_from, since),
                "steps_per_second": _mean_speed(reports, since, inf if until is None else until),
                "predicted_steps_per_second": None if newest is None else 1.0 / newest.total,
            }
        )
    spent = _spent(row, store.now())
    return {
        "starts": starts,
        "measured": [
            {
                "since": store.origin + before.time,
                "until": store.origin + after.time,
                "steps_per_second": _speed(before, after),
            }
            for before, after in pairwise(noted)
            if before.epoch == after.epoch and before.time < after.time
        ],
        "steps_per_second": row.steps_per_second or None,
        "spent": spent,
        "shares": _shares(spent, newest),
    }


def _speed(before: StepsDone, after: StepsDone) -> float:
    """Steps per second between two reports; 0 where a job counts back."""
    return max(after.steps - before.steps, 0.0) / (after.time - before.time)


def _mean_speed(reports: Sequence[StepsDone], since: float, until: float) -> float | None:
    """Of the reports of one start within a time; None: there are not two of them."""
    within = [one for one in reports if since <= one.time <= until]
    return _speed(within[0], within[-1]) if within and within[0].time < within[-1].time else None


def _spent(row: JobRow, now: float) -> dict[str, float]:
    """Seconds since its submission: waiting or held, restarting, at work. The present start's start-up counts."""
    until = now if row.finished is None else row.finished
    ran, restart = row.run_seconds, row.restart_seconds
    if row.state is State.RUNNING and row.last_start is not None:
        ran += max(now - row.last_start, 0.0)
        restart += max(row.first_step - row.last_start, 0.0) if row.first_step is not None else 0.0
    restart = min(restart, ran)
    waiting = max(until - row.submitted - ran, 0.0)
    return {"waiting_seconds": waiting, "restart_seconds": restart, "working_seconds": ran - restart}


def _stages(row: JobRow, held: Sequence[NodeAllocation[str]], status: DaemonStatus) -> Stages | None:
    """None: its model or one of its nodes is not known, or it has no GPU of its own."""
    model = status.models().get((row.request.model or "").lower())
    known = all(here.node in status.cluster.node_index for here in held)
    if model is None or not known or row.request.gpu_share < 1 or row.request.changes_size:
        return None
    with_gpus = [here for here in held if here.gpu_ids]
    if not with_gpus:
        return None
    asked = row.usual_gpus * row.request.gpu_share
    return stages_of(model, status.cluster, with_gpus, asked)


def _shares(spent: dict[str, float], stages: Stages | None) -> dict[str, float] | None:
    """Restarts as measured; the rest as the model divides it on what the job had last."""
    if stages is None:
        return None
    ran = spent["restart_seconds"] + spent["working_seconds"]
    restart = spent["restart_seconds"] / ran if ran > 0 else 0.0
    steps = (1.0 - restart) / stages.total
    return {
        "input": stages.input * steps,
        "compute": stages.compute * steps,
        "communication": stages.communication * steps,
        "restart": restart,
    }
