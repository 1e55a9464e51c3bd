"""The cluster's links as arrays: what a machine and a rack can send, by position.

A level's `oversubscription` divides the uplink into that level: of a machine its NIC (at most the rack
level's speed), of a rack the sum of its machines' uplinks. Congestion takes its fraction of all of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster.cluster import Cluster, Link
from muster.problems import InputError, Problem


@dataclass(frozen=True)
class LinkTree:
    """Bandwidths in GB/s and latencies in seconds, congestion already taken off."""

    rack_of: npt.NDArray[np.int64]
    """By node."""
    gpus_per_island: npt.NDArray[np.int64]
    """By node."""
    uplink_gb_per_s: npt.NDArray[np.float64]
    """By node, then by rack: the capacities over which jobs contend."""
    level_gb_per_s: npt.NDArray[np.float64]
    """By level: island, node, rack, cluster: what one flow gets between two neighbours."""
    hop_seconds: npt.NDArray[np.float64]
    """By level: latency of one hop."""

    @property
    def nodes(self) -> int:
        """Machines of the cluster; uplink `nodes + r` is that of rack r."""
        return int(self.rack_of.size)


def link_tree(cluster: Cluster, congestion: float = 0.0) -> LinkTree:
    """The links of a cluster of which other traffic takes the fraction `congestion` above the machines."""
    problems = list(_problems(cluster, congestion))
    if problems:
        raise InputError(*problems)
    links = cluster.links
    left = 1.0 - congestion
    rack_of = cluster.rack_of_node
    machines = np.minimum(cluster.nic_gb_per_s, links.rack.gb_per_s) / links.rack.oversubscription
    racks = np.bincount(rack_of, weights=machines, minlength=len(cluster.racks))
    levels = [
        links.island.gb_per_s / links.island.oversubscription,
        links.node.gb_per_s / links.node.oversubscription,
        links.rack.gb_per_s * left,
        links.cluster.gb_per_s * left,
    ]
    return LinkTree(
        rack_of,
        np.array([node.gpus_per_island for node in cluster.nodes], dtype=np.int64),
        np.concatenate([machines, racks / links.cluster.oversubscription]) * left,
        np.array(levels, dtype=np.float64),
        np.array([level.latency_seconds for _, level in _levels(cluster)], dtype=np.float64),
    )


def _levels(cluster: Cluster) -> list[tuple[str, Link]]:
    links = cluster.links
    return [("island", links.island), ("node", links.node), ("rack", links.rack), ("cluster", links.cluster)]


def _problems(cluster: Cluster, congestion: float) -> Iterator[Problem]:
    where = f"cluster {cluster.name}"
    if not 0.0 <= congestion < 1.0:
        yield Problem("--congestion", "allowed: a fraction from 0 to below 1", None, None, congestion)
    for name, link in _levels(cluster):
        for field, value, least in (
            ("gb_per_s", link.gb_per_s, "more than 0"),
            ("latency_seconds", link.latency_seconds, "0 or more"),
            ("oversubscription", link.oversubscription, "more than 0"),
        ):
            allowed = value >= 0.0 if least == "0 or more" else value > 0.0
            if not (allowed and math.isfinite(value)):
                yield Problem(where, f"allowed: {least}", None, f"links.{name}.{field}", value)
    for node in cluster.nodes:
        if node.gpus and not (node.nic_gb_per_s > 0.0 and math.isfinite(node.nic_gb_per_s)):
            allowed_words = "allowed: a network card of more than 0 GB/s"
            yield Problem(
                f"{where}, node {node.name}", allowed_words, None, "nic_gb_per_s", node.nic_gb_per_s
            )
