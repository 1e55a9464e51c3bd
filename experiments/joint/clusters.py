"""Clusters of the generated grounds, as the text of a cluster file says them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.cluster import Cluster
from muster.cluster.cluster_file import cluster_from_toml


@dataclass(frozen=True)
class Nodes:
    """So many nodes of one kind."""

    count: int
    gpus: int
    cpus: float
    memory_gb: float
    gpu_type: str = "V100"


@dataclass(frozen=True)
class Network:
    """Links of two racks."""

    nic_gbit: float
    gbit: float
    oversubscription: float = 1.0


def cluster_of(name: str, kinds: Sequence[Nodes], network: Network | None = None) -> Cluster:
    """Nodes of these kinds, with a network in two racks."""
    lines = []
    if network is not None:
        lines.append(f"machines_per_rack = {sum(kind.count for kind in kinds) // 2}")
    for number, kind in enumerate(kinds):
        lines += [f"[types.type{number}]", f"gpus = {kind.gpus}", f'gpu_type = "{kind.gpu_type}"']
        lines += [f"cpus = {kind.cpus}", f"memory_gb = {kind.memory_gb}", 'storage_gb_per_s = "500MB/s"']
        if network is not None:
            lines.append(f"nic_gb_per_s = {network.nic_gbit / 8}")
    for number, kind in enumerate(kinds):
        lines += ["[[nodes]]", f'type = "type{number}"', f"count = {kind.count}"]
    if network is not None:
        for link, latency in (("rack", "5us"), ("cluster", "50us")):
            lines += [
                f"[links.{link}]",
                f'gb_per_s = "{network.gbit}Gbit/s"',
                f'latency_seconds = "{latency}"',
            ]
        lines.append(f"oversubscription = {network.oversubscription}")
    return cluster_from_toml("\n".join(lines), where=name, name=name)
