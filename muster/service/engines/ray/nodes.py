"""Ray's nodes as Muster schedules them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from muster.cluster import Cluster, Node
from muster.cluster.cluster_file import FIRST_RACK, NodeType, machine
from muster.cluster.description import ANY_GPU, Links
from muster.cluster.ledger import NodeAllocation
from muster.problems import InputError, Problem
from muster.service.engines.interface import EngineNode
from muster.service.engines.ray.messages import RayNode

_LEAST = 1e-3
"""Of CPUs and GB: less is what rounding leaves."""


def cluster_of(nodes: Sequence[RayNode], name: str) -> Cluster:
    """Return the cluster of nodes with one rack. InputError if one of them cannot be used."""
    links = Links()
    kinds = list(dict.fromkeys(map(_kind, nodes)))
    made = [
        machine(_node_type(kind), f"type-{kinds.index(kind)}", node.name, 0, links)
        for node in nodes
        for kind in [_kind(node)]
    ]
    return Cluster(name, tuple(made), (FIRST_RACK,), links)


def engine_node(node: RayNode) -> EngineNode:
    """Return a node with what jobs of Ray itself hold there."""
    (made,) = cluster_of([node], node.name).nodes
    return EngineNode(made, _others(node, made))


def _kind(node: RayNode) -> tuple[int, str, float, float, tuple[str, ...]]:
    return node.gpus, node.gpu_type, node.cpus, round(node.memory_gb, 3), node.labels


def _node_type(kind: tuple[int, str, float, float, tuple[str, ...]]) -> NodeType:
    gpus, gpu_type, cpus, memory_gb, labels = kind
    if cpus <= 0 or memory_gb <= 0:
        what = "a node of Ray has GPUs and no CPUs or no memory. Hint: ray start --num-cpus N --memory BYTES"
        raise InputError(Problem("Ray", what))
    return NodeType(gpus=gpus, gpu_type=gpu_type or ANY_GPU, cpus=cpus, memory_gb=memory_gb, labels=labels)


def _others(node: RayNode, made: Node) -> NodeAllocation[str] | None:
    if max(node.used_gpus, node.used_cpus, node.used_memory_gb) < _LEAST:
        return None
    gpus = tuple(range(min(ceil(node.used_gpus - _LEAST), made.gpus)))
    return NodeAllocation(
        made.name, gpus, min(node.used_cpus, made.cpus), min(node.used_memory_gb, made.memory_gb)
    )
