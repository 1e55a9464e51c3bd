"""A cluster from a record: back from what `Cluster.to_dict` wrote into `run.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from muster.checked_toml import describe_error
from muster.cluster.cluster_file import FIRST_RACK
from muster.cluster.description import ANY_GPU, Cluster, Links, Node
from muster.cluster.resources import FURTHER
from muster.problems import InputError, Problem


class _RecordedNode(BaseModel):
    """One machine; amounts of resources that do not come with Muster are further fields."""

    model_config = ConfigDict(extra="allow")

    name: str
    type: str = ""
    rack: str = FIRST_RACK
    gpus: int
    gpu_type: str = ANY_GPU
    gpus_per_island: int | None = None
    cpus: float = 0.0
    memory_gb: float = 0.0
    storage_gb_per_s: float = 0.0
    nic_gb_per_s: float | None = None
    labels: tuple[str, ...] = ()


class _RecordedCluster(BaseModel):
    """What a record says of its cluster; one of an earlier version says nothing of islands and links."""

    name: str
    nodes: tuple[_RecordedNode, ...]
    links: Links = Links()


def cluster_of_record(content: Mapping[str, Any], where: str) -> Cluster:
    """Return the cluster that a record describes; `where` names the record's file in problems.

    Islands and links that are not stated are those of a cluster file that leaves them out.
    """
    try:
        found = _RecordedCluster.model_validate(content)
    except ValidationError as error:
        problems = []
        for details in error.errors(include_url=False, include_context=True):
            column = ".".join(map(str, ("cluster", *details["loc"])))
            what, value = describe_error(details, None, ())
            problems.append(Problem(where, what, column=column, found=value))
        raise InputError(*problems) from None
    racks = tuple(dict.fromkeys(node.rack for node in found.nodes))
    index = {rack: number for number, rack in enumerate(racks)}
    nodes = tuple(_node(node, index[node.rack], found.links) for node in found.nodes)
    return Cluster(found.name, nodes, racks, found.links)


def _node(found: _RecordedNode, rack: int, links: Links) -> Node:
    further = found.model_extra or {}
    return Node(
        name=found.name,
        type_name=found.type,
        rack=rack,
        gpus=found.gpus,
        gpu_type=found.gpu_type,
        gpus_per_island=found.gpus_per_island or max(found.gpus, 1),
        cpus=found.cpus,
        memory_gb=found.memory_gb,
        storage_gb_per_s=found.storage_gb_per_s,
        nic_gb_per_s=links.rack.gb_per_s if found.nic_gb_per_s is None else found.nic_gb_per_s,
        labels=found.labels,
        further=tuple(float(further.get(resource.name) or 0.0) for resource in FURTHER),
    )
