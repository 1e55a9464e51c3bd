"""Whether a cluster could hold a job at all, if it held nothing else: else it would wait for ever."""

from __future__ import annotations

from muster.cluster import Cluster, Node
from muster.problems import BadInput, Problem
from muster.service.request import JobRequest
from muster.workload.jobs import nodes_allowed


def check_fits(request: JobRequest, cluster: Cluster, where: str = "request") -> None:
    """BadInput where no state of the cluster has room for the job."""
    allowed = nodes_allowed(request.constraint, cluster, where)
    nodes = [node for node, may in zip(cluster.nodes, allowed, strict=True) if may]
    whose = f"cluster {cluster.name} has" if len(nodes) == len(cluster.nodes) else "the nodes it may use have"
    gpus = sum(node.gpus for node in nodes)
    if gpus < request.gpus:
        what = f"{whose} {gpus} GPUs; ask for at most so many"
        raise BadInput(Problem(where, what, column="gpus", found=request.gpus))
    for column, wanted, unit in (
        ("cpus", request.cpus, "CPU cores"),
        ("memory_gb", request.memory_gb, "GB of memory"),
    ):
        each = 0.0 if wanted is None else wanted / request.gpus
        if sum(_seats(node, column, each) for node in nodes) < request.gpus:
            most = max(getattr(node, column) for node in nodes if node.gpus)
            what = (
                f"{whose} no room for so much beside {request.gpus} GPUs; a node has at most {most:g} {unit}"
            )
            raise BadInput(Problem(where, what, column=column, found=wanted))


def _seats(node: Node, column: str, wanted_per_gpu: float) -> int:
    """GPUs of a node that can have so much of a resource each."""
    return min(node.gpus, int(getattr(node, column) / wanted_per_gpu + 1e-9)) if wanted_per_gpu else node.gpus
