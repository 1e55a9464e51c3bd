"""What there is: nodes with their GPUs, CPUs, memory and storage, the racks they stand in, the links between.

Units: GPUs, CPU cores, GB (10^9 bytes), GB per second, seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from muster.cluster.resources import FURTHER
from muster.formatting import counted
from muster.problems import InputError, Problem

MAX_GPUS_PER_NODE = 60
"""The ledger keeps the GPUs of a node as the bits of one 64-bit number."""

PARTITION = "partition:"
"""What the label of a partition's nodes begins with."""
WEIGHT = "weight:"
"""What the label with a node's weight begins with: Slurm takes nodes of a lower weight first."""
ANY_GPU = "GPU"
"""The type of GPUs whose type is not stated."""


@dataclass(frozen=True)
class Link:
    """How fast two neighbours of one level of the tree talk to each other."""

    gb_per_s: float
    latency_seconds: float
    oversubscription: float = 1.0
    """Sum of the links below over the uplink that they share; 1: none is lost."""


@dataclass(frozen=True)
class Links:
    """The links by level of the tree, innermost first; the defaults are Dally's reference constants."""

    island: Link = Link(600.0, 0.0)
    """Between the GPUs of one NVLink island (Dally's slot)."""
    node: Link = Link(600.0, 500e-9)
    """Between the islands of one machine."""
    rack: Link = Link(200.0, 5e-6)
    """Between the machines of one rack."""
    cluster: Link = Link(400.0, 50e-6)
    """Between racks."""


@dataclass(frozen=True)
class Node:
    """One machine."""

    name: str
    type_name: str
    rack: int
    """Index into the cluster's `racks`."""
    gpus: int
    """May be 0: a machine for parameter servers."""
    gpu_type: str
    gpus_per_island: int
    """GPUs 0..k-1 are the first NVLink island, k..2k-1 the second; the last one may be smaller."""
    cpus: float
    memory_gb: float
    storage_gb_per_s: float
    nic_gb_per_s: float
    labels: tuple[str, ...] = ()
    further: tuple[float, ...] = (0.0,) * len(FURTHER)
    """Of the resources that do not come with Muster, in the order of `FURTHER`."""

    @property
    def weight(self) -> int:
        """That of its label, else Slurm's default."""
        stated = (label.removeprefix(WEIGHT) for label in self.labels if label.startswith(WEIGHT))
        return next((int(weight) for weight in stated if weight.isdecimal()), 1)

    @property
    def kind(self) -> str:
        """Its GPUs, as `8 H100`."""
        return counted(self.gpus, "GPU") if self.gpu_type == ANY_GPU else f"{self.gpus} {self.gpu_type}"

    @property
    def amounts(self) -> tuple[float, ...]:
        """What the node has, by resource."""
        return (self.gpus, self.cpus, self.memory_gb, self.storage_gb_per_s, *self.further)


@dataclass(frozen=True)
class Cluster:
    """All machines, in the order in which placement walks them. Refuses what no scheduler could use."""

    name: str
    nodes: tuple[Node, ...]
    racks: tuple[str, ...]
    """Names of the racks; a node's `rack` is an index into them."""
    links: Links = field(default_factory=Links)
    assumed: str = field(default="", compare=False)
    """What stands for the resources that its description leaves out: `3 CPU cores for each GPU`."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """What its description says and the cluster does not have, and what was taken from elsewhere."""

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise InputError(*problems)

    def without(self, names: Collection[str]) -> Cluster:
        """The nodes that are left, in the racks that are."""
        left = [node for node in self.nodes if node.name not in names]
        racks = sorted({node.rack for node in left})
        nodes = tuple(replace(node, rack=racks.index(node.rack)) for node in left)
        return replace(self, nodes=nodes, racks=tuple(self.racks[rack] for rack in racks))

    def linked_as(self, other: Cluster) -> Cluster:
        """The same nodes with the links of another cluster, and the network cards of its nodes of the same names."""
        cards = {node.name: node.nic_gb_per_s for node in other.nodes}
        usual = other.links.rack.gb_per_s
        nodes = tuple(replace(node, nic_gb_per_s=cards.get(node.name, usual)) for node in self.nodes)
        return replace(self, nodes=nodes, links=other.links)

    @cached_property
    def total_gpus(self) -> int:
        """GPUs of all nodes."""
        return sum(node.gpus for node in self.nodes)

    @cached_property
    def total_cpus(self) -> float:
        """CPU cores of all nodes."""
        return sum(node.cpus for node in self.nodes)

    @cached_property
    def total_memory_gb(self) -> float:
        """Memory of all nodes, in GB."""
        return sum(node.memory_gb for node in self.nodes)

    @cached_property
    def share_per_gpu(self) -> NDArray[np.float64]:
        """CPU cores, GB of memory and GB/s of storage for each GPU, in all nodes that have some.

        Of all nodes in a cluster without GPUs.
        """
        nodes = [node for node in self.nodes if node.gpus] or self.nodes
        amounts = [(node.cpus, node.memory_gb, node.storage_gb_per_s) for node in nodes]
        share: NDArray[np.float64] = np.sum(amounts, axis=0) / max(self.total_gpus, 1)
        return share

    @cached_property
    def most_gpus_per_node(self) -> int:
        """GPUs of the largest node: a gang up to this size may run on one node."""
        return max(node.gpus for node in self.nodes)

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types there are, in the order in which the nodes bring them."""
        return tuple(dict.fromkeys(node.gpu_type for node in self.nodes if node.gpus))

    @property
    def states_gpu_types(self) -> bool:
        """Whether any node with GPUs has a type of its own, not the `GPU` of descriptions without one."""
        return any(gpu_type != ANY_GPU for gpu_type in self.gpu_types)

    @cached_property
    def weights(self) -> tuple[int, ...] | None:
        """The weight of each node; None if all are alike."""
        weights = tuple(node.weight for node in self.nodes)
        return weights if len(set(weights)) > 1 else None

    @cached_property
    def amounts(self) -> NDArray[np.float64]:
        """(nodes, resources): what each node has, as `Node.amounts`."""
        return np.array([node.amounts for node in self.nodes], np.float64)

    @cached_property
    def nic_gb_per_s(self) -> NDArray[np.float64]:
        """Of each node's network card."""
        return np.array([node.nic_gb_per_s for node in self.nodes], np.float64)

    @cached_property
    def rack_of_node(self) -> NDArray[np.int64]:
        """The rack of each node."""
        return np.array([node.rack for node in self.nodes], np.int64)

    @cached_property
    def node_index(self) -> Mapping[str, int]:
        """Position in `nodes` by node name."""
        return {node.name: index for index, node in enumerate(self.nodes)}

    @cached_property
    def nodes_by_rack(self) -> tuple[tuple[int, ...], ...]:
        """For each rack the positions of its nodes, ascending."""
        members: list[list[int]] = [[] for _ in self.racks]
        for index, node in enumerate(self.nodes):
            members[node.rack].append(index)
        return tuple(tuple(indices) for indices in members)

    def to_dict(self) -> dict[str, object]:
        """The cluster as `run.json` keeps it."""
        return {
            "name": self.name,
            "nodes": [
                {
                    "name": node.name,
                    "type": node.type_name,
                    "rack": self.racks[node.rack],
                    "gpus": node.gpus,
                    "gpu_type": node.gpu_type,
                    "gpus_per_island": node.gpus_per_island,
                    "cpus": node.cpus,
                    "memory_gb": node.memory_gb,
                    "storage_gb_per_s": node.storage_gb_per_s,
                    "nic_gb_per_s": node.nic_gb_per_s,
                    "labels": list(node.labels),
                    **{one.name: amount for one, amount in zip(FURTHER, node.further, strict=True)},
                }
                for node in self.nodes
            ],
            "links": asdict(self.links),
        }


def _problems(cluster: Cluster) -> list[Problem]:
    """What makes a cluster unusable, however it was described (a file, a converter, code)."""
    where = f"cluster {cluster.name}"
    problems = []
    if not any(node.gpus for node in cluster.nodes):
        problems.append(Problem(where, "has no node with a GPU; allowed: at least one"))
    for name, count in Counter(node.name for node in cluster.nodes).items():
        if count > 1:
            problems.append(
                Problem(where, f"{count} nodes have this name; each needs its own", None, "name", name)
            )
    for node in cluster.nodes:
        at = f"{where}, node {node.name}"
        if not 0 <= node.gpus <= MAX_GPUS_PER_NODE:
            allowed = f"allowed: a whole number from 0 to {MAX_GPUS_PER_NODE}"
            problems.append(Problem(at, allowed, None, "gpus", node.gpus))
        elif not 1 <= node.gpus_per_island <= max(node.gpus, 1):
            allowed = f"allowed: a whole number from 1 to its {counted(node.gpus, 'GPU')}"
            problems.append(Problem(at, allowed, None, "gpus_per_island", node.gpus_per_island))
        if not 0 <= node.rack < len(cluster.racks):
            allowed = f"the cluster has {len(cluster.racks)} racks, counted from 0"
            problems.append(Problem(at, allowed, None, "rack", node.rack))
    peopled = {node.rack for node in cluster.nodes}
    problems += [
        Problem(where, "this rack has no machine; give it one or leave it out", None, "racks", name)
        for index, name in enumerate(cluster.racks)
        if index not in peopled
    ]
    return problems
