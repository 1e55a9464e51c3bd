"""How fast a job should be on what it has had, and where its time goes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from muster.cluster.ledger import NodeAllocation
from muster.service.daemon_status import DaemonStatus
from muster.service.store import Store
from muster.service.store.rows import JobRow
from muster.speed.gains import Stages, network_for, stages_of


def series_of(row: JobRow, store: Store, status: DaemonStatus) -> dict[str, Any]:
    """Each start of a job with the speed that its model predicts, and the shares of its time, as `JobSeries`."""
    held = defaultdict(list)
    for interval in store.allocation_intervals(row.id):
        held[interval.epoch, interval.since, interval.until].append(interval.allocation)
    starts, newest = [], None
    for (_, since, until), here in sorted(held.items(), key=lambda entry: entry[0][1]):
        newest = _stages(row, here, status)
        starts.append(
            {
                "since": store.origin + since,
                "until": None if until is None else store.origin + until,
                "nodes": [one.node for one in here],
                "gpus": sum(one.gpus for one in here),
                "predicted_steps_per_second": None if newest is None else 1.0 / newest.total,
            }
        )
    measured = row.steps_per_second or None
    return {"starts": starts, "steps_per_second": measured, "shares": _shares(row, newest)}


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
    return stages_of(model, status.cluster, with_gpus, asked, network_for(model, status.cluster))


def _shares(row: JobRow, stages: Stages | None) -> dict[str, float] | None:
    """Restarts as measured; the rest as the model divides it on what the job had last."""
    if stages is None:
        return None
    restart = min(row.restart_seconds / row.run_seconds, 1.0) if row.run_seconds > 0 else 0.0
    steps = (1.0 - restart) / stages.total
    return {
        "input": stages.input * steps,
        "compute": stages.compute * steps,
        "communication": stages.communication * steps,
        "restart": restart,
    }
