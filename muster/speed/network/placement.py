"""Placements as rows, and what the network sees of them: their shape.

A shape says how many GPUs, islands, machines and racks a job uses, whether they are spread evenly, and the
narrowest uplinks on its way. Two placements of one shape are equally fast when alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from muster.cluster import Cluster
from muster.cluster.structured import Structured, zero_records
from muster.speed.network.placement_core import crossings, fill_shapes, loads
from muster.speed.network.tree import LinkTree

SHAPE_DTYPE = np.dtype(
    [
        ("gpus", np.int64),
        ("islands", np.int64),
        ("machines", np.int64),
        ("racks", np.int64),
        ("even", np.int64),  # sum of EVEN_ISLANDS, EVEN_MACHINES, EVEN_RACKS
        ("machine_gb_per_s", np.float64),  # narrowest machine uplink; infinite within one machine
        ("rack_gb_per_s", np.float64),  # narrowest rack uplink; infinite within one rack
    ]
)
Shapes: TypeAlias = Structured[
    Literal["gpus", "islands", "machines", "racks", "even", "machine_gb_per_s", "rack_gb_per_s"]
]


@dataclass(frozen=True)
class Placements:
    """Where a batch of jobs runs: job j holds the GPUs of rows `first[j]` to `first[j + 1] - 1`."""

    first: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int64]
    """Node index of each row; a job has at most one row a node."""
    gpu_bits: npt.NDArray[np.int64]
    """GPU ids of the row as bits."""

    @classmethod
    def on_node(cls, node: int, gpus: int) -> Placements:
        """One job on the first GPUs of one node."""
        return cls(np.array([0, 1]), np.array([node], np.int64), np.array([(1 << gpus) - 1], np.int64))

    @property
    def jobs(self) -> int:
        """Jobs of the batch."""
        return int(self.first.size) - 1


def shapes_of(placements: Placements, tree: LinkTree) -> Shapes:
    """The shape of every placement: an array of SHAPE_DTYPE."""
    shapes: Shapes = zero_records(placements.jobs, SHAPE_DTYPE)
    fill_shapes(
        placements.first,
        placements.nodes,
        placements.gpu_bits,
        tree.rack_of,
        tree.gpus_per_island,
        tree.uplink_gb_per_s,
        shapes,
    )
    return shapes


def uplinks_of(placements: Placements, tree: LinkTree) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Which uplinks every job crosses, as `first` and `links` of `contention.Neighbourhood`.

    A job on several machines crosses theirs, one on several racks also the racks'.
    """
    return crossings(placements.first, placements.nodes, tree.rack_of, tree.uplink_gb_per_s.size)


def loads_of(placements: Placements, shapes: Shapes, tree: LinkTree) -> npt.NDArray[np.float64]:
    """GB that each uplink of `uplinks_of` carries for each GB of gradient: what the ring all-reduce sends over it.

    Every level that is spread evenly is a ring of its own, on the part of the gradient that the levels inside it left
    to each GPU; over an uneven one a flat ring of all GPUs passes each uplink once.
    """
    return loads(placements.first, placements.nodes, placements.gpu_bits, shapes, tree.rack_of)


def place(gpus_by_rack: Sequence[Sequence[int]], cluster: Cluster) -> Placements | None:
    """One job with these GPUs on machines of as many racks, in the empty cluster; None if it has no room.

    `[[4, 4], [8]]` is twice 4 GPUs in one rack and 8 in another.
    """
    rows: list[tuple[int, int]] = []
    racks_left = list(range(len(cluster.racks)))
    for wanted in sorted(gpus_by_rack, key=lambda gpus: (max(gpus), len(gpus)), reverse=True):
        for rack in racks_left:
            found = _place_in_rack(wanted, [(i, cluster.nodes[i].gpus) for i in cluster.nodes_by_rack[rack]])
            if found:
                rows += found
                racks_left.remove(rack)
                break
        else:
            return None
    return Placements(
        np.array([0, len(rows)], dtype=np.int64),
        np.array([node for node, _ in rows], dtype=np.int64),
        np.array([(1 << gpus) - 1 for _, gpus in rows], dtype=np.int64),
    )


def _place_in_rack(wanted: Sequence[int], machines: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Rows (node, GPUs), each share on the smallest machine that holds it; [] if one has none."""
    free = sorted(machines, key=lambda machine: machine[1])
    rows = []
    for gpus in sorted(wanted, reverse=True):
        fitting = next((machine for machine in free if machine[1] >= gpus), None)
        if fitting is None:
            return []
        free.remove(fitting)
        rows.append((fitting[0], gpus))
    return rows
