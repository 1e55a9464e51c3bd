"""The machines, and taking them out of use."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import asdict
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Path

from muster.cluster.ledger import NodeAllocation
from muster.service.api import answers
from muster.service.api.failures import Refused, may_answer
from muster.service.api.service import DESCRIBED, CallerHere, OperatorHere, Service, ServiceHere
from muster.service.store.rows import AllocationInterval
from muster.service.waiting import differing_clocks

Name = Annotated[str, Path(max_length=200)]

log = structlog.get_logger()
router = APIRouter(prefix="/v1/nodes", tags=["nodes"], dependencies=[DESCRIBED], responses=may_answer())


@router.get("", response_model=answers.NodeList)
def nodes(service: ServiceHere, caller: CallerHere) -> dict[str, Any]:
    """All nodes: what they have, and what of that is held."""
    held: dict[str, list[AllocationInterval]] = {}
    with service.store.together():
        for interval in service.store.held_now():
            held.setdefault(interval.allocation.node, []).append(interval)
        drained = {node.name for node in service.store.nodes() if node.drained}
        own = None if caller.operator else service.store.holders(caller.user).keys()
    return {
        "nodes": [
            {
                "name": node.name,
                "type": node.type_name,
                "rack": service.status.cluster.racks[node.rack],
                "gpu_type": node.gpu_type,
                "drained": node.name in drained,
                "away": node.name in service.status.away,
                "gpus": node.gpus,
                "cpus": node.cpus,
                "memory_gb": node.memory_gb,
                **_held(held.get(node.name, []), own),
                "gpu_jobs": _by_gpu(node.gpus, held.get(node.name, []), own),
                "gpu_use": [use and asdict(use) for use in service.status.gpu_use.get(node.name, ())],
                **_others(service.status.others.get(node.name)),
            }
            for node in service.status.cluster.nodes
        ],
        "notices": differing_clocks(service.status),
    }


@router.post("/{name:path}/drain", response_model=answers.NodeList, responses=may_answer(403, 404))
def drain(name: Name, service: ServiceHere, caller: OperatorHere) -> dict[str, Any]:
    """Start nothing on a node any more, and move away what runs there."""
    return _drain(name, True, service, caller)


@router.post("/{name:path}/undrain", response_model=answers.NodeList, responses=may_answer(403, 404))
def undrain(name: Name, service: ServiceHere, caller: OperatorHere) -> dict[str, Any]:
    """Use a drained node again."""
    return _drain(name, False, service, caller)


def _drain(name: str, drained: bool, service: Service, caller: OperatorHere) -> dict[str, Any]:
    if name not in service.status.cluster.node_index:
        raise Refused(404, f"there is no node {name!r}; muster nodes lists them")
    service.store.drain(name, drained)
    service.status.wake()
    log.info("drained" if drained else "undrained", user=caller.user, node=name)
    found = nodes(service, caller)
    return found | {"nodes": [machine for machine in found["nodes"] if machine["name"] == name]}


def _others(held: NodeAllocation[str] | None) -> dict[str, float]:
    """What jobs that are not Muster's hold on one node."""
    if held is None:
        return {"others_gpus": 0.0, "others_cpus": 0.0, "others_memory_gb": 0.0}
    return {"others_gpus": held.gpus, "others_cpus": held.cpus, "others_memory_gb": held.memory_gb}


def _by_gpu(gpus: int, intervals: list[AllocationInterval], seen: Set[int] | None) -> list[list[int | None]]:
    """The jobs on each GPU of a node; None in place of those that the caller may not see."""
    jobs: list[list[int | None]] = [[] for _ in range(gpus)]
    for interval in intervals:
        for gpu in interval.allocation.gpu_ids:
            if gpu < gpus:
                jobs[gpu].append(interval.job if seen is None or interval.job in seen else None)
    return jobs


def _held(intervals: list[AllocationInterval], seen: Set[int] | None) -> dict[str, Any]:
    """Of one node; jobs are named if they are in `seen`, or all of them where that is None."""
    jobs = {interval.job for interval in intervals}
    return {
        "held_gpus": sum(interval.allocation.gpus for interval in intervals),
        "held_cpus": sum(interval.allocation.cpus for interval in intervals),
        "held_memory_gb": sum(interval.allocation.memory_gb for interval in intervals),
        "jobs": sorted(jobs if seen is None else jobs & seen),
        "jobs_count": len(jobs),
    }
