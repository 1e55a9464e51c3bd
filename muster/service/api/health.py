"""How the daemon is, for monitoring. The answers name no job and no user, so they need no token."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import numpy as np
from fastapi import APIRouter, Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

import muster
from muster.service.api import answers
from muster.service.api.failures import Failure, Refused
from muster.service.api.service import Service, ServiceHere
from muster.service.daemon_status import DaemonStatus
from muster.service.store import StoreUnavailable

_HANGS_SECONDS = 60.0
"""A turn of the controller's loop takes a fraction of a second, and a few with a large decision in it."""
_RESOURCES = {"gpus": 1.0, "cpus": 1.0, "memory_bytes": 1e9, "storage_bytes_per_second": 1e9}
"""In the units that Prometheus wants, and how many of them make one of ours."""
_UNWELL: dict[int | str, dict[str, Any]] = {
    422: {"model": Failure, "description": HTTPStatus(422).phrase},
    503: {"model": Failure, "description": "Something keeps it from its work, or it hangs"},
}

router = APIRouter(tags=["health"])


@router.get("/healthz", response_model=answers.Health, responses=_UNWELL)
def health(service: ServiceHere) -> dict[str, Any]:
    """Whether all is well; 503 says what is not."""
    status = service.status
    silent = _silent(status)
    if status.ready and silent > _HANGS_SECONDS:
        raise Refused(503, f"the controller hangs: its last turn was {silent:.0f} s ago")
    if status.condition:
        raise Refused(503, status.condition)
    of_status = answers.Health.model_fields.keys() - {"limits_error"}
    return {name: getattr(status, name) for name in of_status} | {"limits_error": service.limits.error}


@router.get(
    "/metrics",
    response_class=Response,
    responses=_UNWELL | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(service: ServiceHere) -> Response:
    """Figures for Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Figures(service))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _silent(status: DaemonStatus) -> float:
    """Seconds since the controller's last turn."""
    return time.monotonic() - status.looked_at


def _clocks(status: DaemonStatus) -> Metric:
    found = GaugeMetricFamily(
        "muster_clock_ahead_seconds",
        "Seconds by which the clock of a machine is ahead of the daemon's, as far as the engine knows.",
        labels=["machine"],
    )
    for machine, ahead in status.clocks.items():
        found.add_metric([machine], ahead)
    return found


class _Figures(Collector):
    """Metrics of the store and the daemon's status at this moment."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """Collect all metrics."""
        status = self._service.status
        info = {"version": muster.__version__, "scheduler": status.scheduler, "engine": status.engine}
        yield InfoMetricFamily(
            "muster", "Version of Muster, scheduler and engine of this daemon.", value=info
        )
        with suppress(StoreUnavailable):  # The other figures are wanted then all the more.
            yield from self._of_the_store()
        yield CounterMetricFamily(
            "muster_decisions", "Decisions since the daemon started.", value=status.decisions
        )
        yield CounterMetricFamily(
            "muster_decision_failures",
            "Decisions that failed since the daemon started; each is tried again.",
            value=status.decision_failures,
        )
        yield CounterMetricFamily(
            "muster_decision_seconds",
            "Seconds spent on decisions since the daemon started.",
            value=status.decision_seconds_sum,
        )
        yield GaugeMetricFamily(
            "muster_last_decision_seconds",
            "Seconds that the last decision took.",
            value=status.decision_seconds,
        )
        seen = time.time() - _silent(status)
        yield GaugeMetricFamily(
            "muster_controller_seen_timestamp_seconds",
            "When the controller last went through its loop.",
            value=seen,
        )
        yield GaugeMetricFamily(
            "muster_ready",
            "1 once the daemon has found the jobs of an earlier daemon and serves.",
            value=status.ready,
        )
        yield GaugeMetricFamily(
            "muster_degraded",
            "1 while something keeps the daemon from its work; /healthz says why.",
            value=bool(status.condition),
        )
        yield _clocks(status)

    def _of_the_store(self) -> Iterator[Metric]:
        """Jobs, and what they hold, as of one moment."""
        store, cluster = self._service.store, self._service.status.cluster
        with store.together():
            counts, intervals = store.counts(), store.held_now()
            drained = {node.name for node in store.nodes() if node.drained}
        jobs = GaugeMetricFamily("muster_jobs", "Jobs in each state.", labels=["state"])
        for state, count in counts.items():
            jobs.add_metric([state.value], count)
        yield jobs
        nodes = {
            node.name: np.array([node.gpus, node.cpus, node.memory_gb, node.storage_gb_per_s], np.float64)
            for node in cluster.nodes
        }
        none = np.zeros(len(_RESOURCES))
        held = dict.fromkeys(nodes, none)
        for here in (interval.allocation for interval in intervals):
            if here.node in held:
                held[here.node] = held[here.node] + [
                    here.gpus,
                    here.cpus,
                    here.memory_gb,
                    here.storage_gb_per_s,
                ]
        free = [nodes[name] - held[name] for name in nodes if name not in drained]
        for prefix, sentence, amounts in (
            ("", "Capacity of all nodes.", nodes.values()),
            ("held_", "Amount that jobs hold.", held.values()),
            ("free_", "Amount that no job holds, on nodes that are not drained.", free),
        ):
            total = sum(amounts, none).clip(min=0.0)
            for (name, unit), amount in zip(_RESOURCES.items(), total.tolist(), strict=True):
                yield GaugeMetricFamily(f"muster_{prefix}{name}", sentence, value=amount * unit)
