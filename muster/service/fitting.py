"""Whether a cluster could hold a job at all, if it held nothing else: else it would wait for ever."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from muster.cluster import Cluster, Node
from muster.problems import BadInput, Problem
from muster.service.request import JobRequest
from muster.workload.jobs import nodes_allowed


def check_fits(request: JobRequest, cluster: Cluster, where: str = "request") -> None:
    """BadInput where no state of the cluster has room for the job."""
    nodes: Sequence[Node] = cluster.nodes
    if request.constraint:
        allowed = nodes_allowed(request.constraint, cluster, where)
        nodes = [node for node, may in zip(cluster.nodes, allowed, strict=True) if may]
    whose = f"cluster {cluster.name} has" if len(nodes) == len(cluster.nodes) else "the nodes it may use have"
    if not _reach((node.gpus for node in nodes), request.gpus):
        what = f"{whose} {sum(node.gpus for node in nodes)} GPUs; ask for at most so many"
        raise BadInput(Problem(where, what, column="gpus", found=request.gpus))
    for column, wanted, unit in (
        ("cpus", request.cpus, "CPU cores"),
        ("memory_gb", request.memory_gb, "GB of memory"),
    ):
        each = 0.0 if wanted is None else wanted / request.gpus
        if not _reach((_seats(node, column, each) for node in nodes), request.gpus):
            most = max(getattr(node, column) for node in nodes if node.gpus)
            what = (
                f"{whose} no room for so much beside {request.gpus} GPUs; a node has at most {most:g} {unit}"
            )
            raise BadInput(Problem(where, what, column=column, found=wanted))


def _reach(amounts: Iterable[int], wanted: int) -> bool:
    """Whether they come to so much; most often the first ones do."""
    return any(total >= wanted for total in accumulate(amounts))


def _seats(node: Node, column: str, wanted_per_gpu: float) -> int:
    """GPUs of a node that can have so much of a resource each."""
    if not wanted_per_gpu:
        return node.gpus
    return int(min(node.gpus, getattr(node, column) / wanted_per_gpu + 1e-9))  # where it is tiny: of infinity
