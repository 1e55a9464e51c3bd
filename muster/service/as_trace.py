"""Jobs of the store as the simulator's traces have them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from muster.cluster.resources import FURTHER, Resource
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def trace_columns(
    rows: Sequence[JobRow], submit_seconds: Sequence[float], duration_seconds: Sequence[float]
) -> dict[str, list[Any]]:
    """What their owners requested; arrivals and durations are the caller's."""
    requests = [row.request for row in rows]
    bounds = [row.gpu_bounds if row.gpu_bounds[0] < row.gpu_bounds[1] else (None, None) for row in rows]
    return {
        "job_id": [str(row.id) for row in rows],
        "submit_seconds": list(submit_seconds),
        "gpus": [row.usual_gpus for row in rows],
        "min_gpus": [least for least, _ in bounds],
        "max_gpus": [most for _, most in bounds],
        "gpu_milli": [request.gpu_milli for request in requests],
        "model": [_plain(request.model or "") for request in requests],
        "duration_seconds": list(duration_seconds),
        "tenant": [_plain(request.tenant or "") for request in requests],
        "user": [_plain(row.user) for row in rows],
        "priority": [request.priority for request in requests],
        "cpus": [request.cpus for request in requests],
        "memory_gb": [request.memory_gb for request in requests],
        **{one.name: [_stated(one, request) for request in requests] for one in FURTHER},
        "preemptible": [row.preemptible for row in rows],
        "min_runtime_seconds": [request.min_runtime_seconds for request in requests],
        "restart_cost_seconds": [row.restart_cost_seconds for row in rows],
        "constraint": [_plain("_".join(request.constraint.split())) for request in requests],
        "deadline_seconds": [row.deadline for row in rows],
        "time_limit_seconds": [request.time_limit_seconds for request in requests],
    }


def _plain(text: str) -> str:
    """The text without control characters, which no trace has; stores may hold some from before they were refused."""
    return _CONTROLS.sub("_", text)


def _stated(resource: Resource, request: JobRequest) -> float | None:
    """How much of a resource a job states: of one that cannot be divided a whole number, as a trace has it."""
    amount = request.resources.get(resource.name)
    return amount if amount is None or resource.divisible else int(amount)
