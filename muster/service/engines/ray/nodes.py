"""Ray's nodes as Muster schedules them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from muster.cluster import Cluster, Node
from muster.cluster.cluster_file import FIRST_RACK, NodeType, machine
from muster.cluster.description import ANY_GPU, MAX_GPUS_PER_NODE, Links
from muster.cluster.ledger import NodeAllocation
from muster.service.engines.interface import EngineNode
from muster.service.engines.ray.messages import RayNode

_LEAST = 1e-3
"""Of CPUs and GB: less is what rounding leaves."""


def unusable(node: RayNode) -> str:
    """Return why nothing can be placed on a node with GPUs; "" where something can."""
    if node.cpus <= 0 or node.memory_gb <= 0:
        return "it has GPUs and no CPUs or no memory. Hint: ray start --num-cpus N --memory BYTES"
    if node.gpus > MAX_GPUS_PER_NODE:
        return f"it has {node.gpus} GPUs; allowed: {MAX_GPUS_PER_NODE}. Hint: ray start --num-gpus N"
    return ""


def cluster_of(nodes: Sequence[RayNode], name: str, left_out: Mapping[str, str] | None = None) -> Cluster:
    """Return the cluster of usable nodes with one rack; its notes say why others are left out, by name."""
    links = Links()
    kinds = list(dict.fromkeys(map(_kind, nodes)))
    made = [
        machine(_node_type(kind), f"type-{kinds.index(kind)}", node.name, 0, links)
        for node in nodes
        for kind in [_kind(node)]
    ]
    notes = tuple(f"node {node} is left out: {why}" for node, why in sorted((left_out or {}).items()))
    return Cluster(name, tuple(made), (FIRST_RACK,), links, notes=notes)


def engine_node(node: RayNode) -> EngineNode:
    """Return a node with what jobs of Ray itself hold there."""
    (made,) = cluster_of([node], node.name).nodes
    return EngineNode(made, _others(node, made))


def _kind(node: RayNode) -> tuple[int, str, float, float, tuple[str, ...]]:
    return node.gpus, node.gpu_type, node.cpus, round(node.memory_gb, 3), node.labels


def _node_type(kind: tuple[int, str, float, float, tuple[str, ...]]) -> NodeType:
    gpus, gpu_type, cpus, memory_gb, labels = kind
    return NodeType(gpus=gpus, gpu_type=gpu_type or ANY_GPU, cpus=cpus, memory_gb=memory_gb, labels=labels)


def _others(node: RayNode, made: Node) -> NodeAllocation[str] | None:
    if max(node.used_gpus, node.used_cpus, node.used_memory_gb) < _LEAST:
        return None
    gpus = tuple(range(min(ceil(node.used_gpus - _LEAST), made.gpus)))
    return NodeAllocation(
        made.name, gpus, min(node.used_cpus, made.cpus), min(node.used_memory_gb, made.memory_gb)
    )
