"""Whether a cluster could hold a job at all, if it held nothing else: else it would wait for ever."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from muster.cluster import Cluster, Node
from muster.problems import BadInput, Problem
from muster.service.request import JobRequest
from muster.workload.jobs import nodes_allowed


def misfits(request: JobRequest, cluster: Cluster, where: str = "request") -> Iterator[Problem]:
    """All for which no state of the cluster has room."""
    nodes: Sequence[Node] = cluster.nodes
    if request.constraint:
        try:
            allowed = nodes_allowed(request.constraint, cluster, where)
        except BadInput as bad:
            yield from bad.problems
            return
        nodes = [node for node, may in zip(cluster.nodes, allowed, strict=True) if may]
    whose = f"cluster {cluster.name} has" if len(nodes) == len(cluster.nodes) else "the nodes it may use have"
    if not _reach((node.gpus for node in nodes), request.gpus):
        what = f"{whose} {sum(node.gpus for node in nodes)} GPUs; ask for at most so many"
        yield Problem(where, what, column="gpus", found=request.gpus)
        if not any(node.gpus for node in nodes):
            return
    for column, wanted, unit in (
        ("cpus", request.cpus, "CPU cores"),
        ("memory_gb", request.memory_gb, "GB of memory"),
    ):
        if wanted is None:
            continue
        gpus = min(request.gpus, sum(node.gpus for node in nodes))
        if not _reach((_seats(node, column, wanted / gpus) for node in nodes), gpus):
            most = max(getattr(node, column) for node in nodes if node.gpus)
            what = f"{whose} no room for so much beside {gpus} GPUs; a node has at most {most:g} {unit}"
            yield Problem(where, what, column=column, found=wanted)


def _reach(amounts: Iterable[int], wanted: int) -> bool:
    """Whether they come to so much; most often the first ones do."""
    return any(total >= wanted for total in accumulate(amounts))


def _seats(node: Node, column: str, wanted_per_gpu: float) -> int:
    """GPUs of a node that can have so much of a resource each."""
    return int(min(node.gpus, getattr(node, column) / wanted_per_gpu + 1e-9))  # where it is tiny: of infinity
