"""The nodes of a partition as Muster may use them, and what jobs of others hold there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from muster.cluster import Cluster, Node
from muster.cluster.ledger import NodeAllocation
from muster.cluster.slurm_nodes import DRAINED, RESERVED, UNUSABLE, read_fields
from muster.service.engines.interface import EngineNode
from muster.units import GB_PER_MIB

_LEAST_GB = 0.01
"""Less is what rounding to whole MiB leaves."""
_TYPE = re.compile(r"gpu:([^:(,]+):\d+")
_GPUS_USED = re.compile(r"gpu(?::(?:\(null\)|[^:(]+))?:(\d+)")
"""As gpu:2(IDX:0-1) or gpu:v100:2; a type that is not known is (null) in some releases."""


def engine_nodes(
    printed: str, cluster: Cluster, ours: Iterable[Sequence[NodeAllocation[str]]]
) -> list[EngineNode]:
    """Return the usable nodes of the cluster from `scontrol --details --oneliner show node`.

    `ours` is what the starts of this engine hold. What else a node has allocated belongs to others, and so does
    all else of a node that is in maintenance or reserved, or drained while something of ours runs there.
    """
    held: dict[str, list[NodeAllocation[str]]] = {}
    for allocations in ours:
        for here in allocations:
            held.setdefault(here.node, []).append(here)
    found = []
    for line in printed.splitlines():
        fields = read_fields(line)
        at, name = cluster.node_index.get(fields.get("NodeName", "")), fields.get("NodeName", "")
        state = fields.get("State", "").upper()
        # One that is drained is ours until the last of our starts there has ended.
        out = [word for word in UNUSABLE if not (name in held and word == DRAINED)]
        if at is not None and not any(word in state for word in out):
            node = cluster.nodes[at]
            closed = any(word in state for word in (DRAINED, *RESERVED))
            found.append(EngineNode(node, _others(fields, node, held.get(name, []), closed=closed), closed))
    return found


def addresses(printed: str) -> dict[str, str]:
    """Return the address of each node, by name."""
    entries = map(read_fields, printed.splitlines())
    return {
        fields["NodeName"]: fields.get("NodeAddr") or fields["NodeName"]
        for fields in entries
        if "NodeName" in fields
    }


def of_several_types(printed: str) -> frozenset[str]:
    """Return the nodes with GPUs of several types, of which Slurm has a choice."""
    entries = map(read_fields, printed.splitlines())
    return frozenset(
        fields["NodeName"] for fields in entries if len(set(_TYPE.findall(fields.get("Gres", "")))) > 1
    )


def _others(
    fields: Mapping[str, str], node: Node, ours: Sequence[NodeAllocation[str]], *, closed: bool
) -> NodeAllocation[str] | None:
    """Return what others hold, of a closed node all else; None if it is nothing. GPUs count, their ids mean nothing."""
    if closed:
        gpus, cpus, memory_gb = node.gpus, node.cpus, node.memory_gb
    else:
        gpus = sum(int(number) for number in _GPUS_USED.findall(fields.get("GresUsed", "")))
        cpus = float(fields.get("CPUAlloc") or 0)
        memory_gb = float(fields.get("AllocMem") or 0) * GB_PER_MIB
    gpus -= sum(len(here.gpu_ids) for here in ours)
    cpus -= sum(here.cpus for here in ours)
    memory_gb -= sum(here.memory_gb for here in ours)
    if gpus <= 0 and cpus <= 0 and memory_gb < _LEAST_GB:
        return None
    return NodeAllocation(
        node.name,
        tuple(range(min(max(gpus, 0), node.gpus))),
        max(min(cpus, node.cpus), 0.0),
        max(min(memory_gb, node.memory_gb), 0.0),
    )
