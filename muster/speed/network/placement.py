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
from muster.compiling import njit
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
EVEN_ISLANDS = 1
"""Each island in use has the same number of the job's GPUs."""
EVEN_MACHINES = 2
"""Each machine in use has the same number of the job's GPUs."""
EVEN_RACKS = 4
"""Each rack in use has the same number of the job's GPUs and machines."""


@dataclass(frozen=True)
class Placements:
    """Where a batch of jobs runs: job j holds the GPUs of rows `first[j]` to `first[j + 1] - 1`."""

    first: npt.NDArray[np.int64]
    nodes: npt.NDArray[np.int64]
    """Node index of each row; a job has at most one row a node."""
    gpu_bits: npt.NDArray[np.int64]
    """GPU ids of the row as bits."""

    @property
    def jobs(self) -> int:
        """Jobs of the batch."""
        return int(self.first.size) - 1


def shapes_of(placements: Placements, tree: LinkTree) -> Shapes:
    """The shape of every placement: an array of SHAPE_DTYPE."""
    shapes: Shapes = zero_records(placements.jobs, SHAPE_DTYPE)
    _fill_shapes(
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
    """Which uplinks every job crosses, as `first` and `links` of `contention.max_min_rates`.

    A job on several machines crosses theirs, one on several racks also the racks'.
    """
    return _crossings(placements.first, placements.nodes, tree.rack_of, tree.uplink_gb_per_s.size)


def loads_of(placements: Placements, shapes: Shapes, tree: LinkTree) -> npt.NDArray[np.float64]:
    """GB that each uplink of `uplinks_of` carries for each GB of gradient: what the ring all-reduce sends over it.

    Every level that is spread evenly is a ring of its own, on the part of the gradient that the levels inside it left
    to each GPU; over an uneven one a flat ring of all GPUs passes each uplink once.
    """
    return _loads(placements.first, placements.nodes, placements.gpu_bits, shapes, tree.rack_of)


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


@njit(cache=True)
def _fill_shapes(
    first: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
    gpu_bits: npt.NDArray[np.int64],
    rack_of: npt.NDArray[np.int64],
    gpus_per_island: npt.NDArray[np.int64],
    uplink: npt.NDArray[np.float64],
    shapes: Shapes,
) -> None:
    racks = uplink.size - rack_of.size
    gpus_in = np.zeros(racks, dtype=np.int64)
    machines_in = np.zeros(racks, dtype=np.int64)
    for job in range(shapes.size):
        shape = shapes[job]
        shape["machine_gb_per_s"] = np.inf
        shape["rack_gb_per_s"] = np.inf
        start, stop = first[job], first[job + 1]
        even_islands = even_machines = True
        per_island = per_machine = 0
        for row in range(start, stop):
            node = nodes[row]
            bits = gpu_bits[row]
            island = (np.int64(1) << gpus_per_island[node]) - np.int64(1)
            in_machine = 0
            while bits:
                in_island = _count(bits & island)
                bits >>= gpus_per_island[node]
                if in_island == 0:
                    continue
                shape["islands"] += 1
                in_machine += in_island
                if per_island == 0:
                    per_island = in_island
                even_islands = even_islands and in_island == per_island
            if row == start:
                per_machine = in_machine
            even_machines = even_machines and in_machine == per_machine
            shape["gpus"] += in_machine
            rack = rack_of[node]
            shape["racks"] += machines_in[rack] == 0
            gpus_in[rack] += in_machine
            machines_in[rack] += 1
            shape["machine_gb_per_s"] = min(shape["machine_gb_per_s"], uplink[node])
            shape["rack_gb_per_s"] = min(shape["rack_gb_per_s"], uplink[rack_of.size + rack])
        shape["machines"] = stop - start
        even_racks = _even_over_racks(shape, nodes[start:stop], rack_of, gpus_in, machines_in)
        for row in range(start, stop):
            gpus_in[rack_of[nodes[row]]] = 0
            machines_in[rack_of[nodes[row]]] = 0
        if shape["machines"] == 1:
            shape["machine_gb_per_s"] = np.inf
        if shape["racks"] == 1:
            shape["rack_gb_per_s"] = np.inf
        shape["even"] = even_islands * EVEN_ISLANDS + even_machines * EVEN_MACHINES + even_racks * EVEN_RACKS


@njit(cache=True)
def _even_over_racks(
    shape: np.void,
    nodes: npt.NDArray[np.int64],
    rack_of: npt.NDArray[np.int64],
    gpus_in: npt.NDArray[np.int64],
    machines_in: npt.NDArray[np.int64],
) -> bool:
    """Whether each rack of these nodes has the same number of the job's GPUs and machines."""
    for node in nodes:
        rack = rack_of[node]
        if gpus_in[rack] * shape["racks"] != shape["gpus"]:
            return False
        if machines_in[rack] * shape["racks"] != shape["machines"]:
            return False
    return True


@njit(cache=True)
def _count(bits: int) -> int:
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@njit(cache=True)
def _crossings(
    first: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
    rack_of: npt.NDArray[np.int64],
    uplinks: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    jobs = first.size - 1
    link_first = np.zeros(jobs + 1, dtype=np.int64)
    links = np.empty(2 * nodes.size, dtype=np.int64)
    last_job_of = np.full(uplinks - rack_of.size, -1, dtype=np.int64)
    filled = 0
    for job in range(jobs):
        start, stop = first[job], first[job + 1]
        several_racks = False
        for row in range(start, stop):
            several_racks = several_racks or rack_of[nodes[row]] != rack_of[nodes[start]]
        if stop - start > 1:
            for row in range(start, stop):
                links[filled] = nodes[row]
                filled += 1
                rack = rack_of[nodes[row]]
                if several_racks and last_job_of[rack] != job:
                    last_job_of[rack] = job
                    links[filled] = rack_of.size + rack
                    filled += 1
        link_first[job + 1] = filled
    return link_first, links[:filled]


@njit(cache=True)
def _loads(
    first: npt.NDArray[np.int64],
    nodes: npt.NDArray[np.int64],
    gpu_bits: npt.NDArray[np.int64],
    shapes: Shapes,
    rack_of: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    """In the order of `_crossings`."""
    racks = rack_of.max() + 1
    last_job_of = np.full(racks, -1, dtype=np.int64)
    loads = np.empty(2 * nodes.size)
    filled = 0
    for job in range(first.size - 1):
        shape = shapes[job]
        if shape["machines"] < 2:
            continue
        flat_over_racks = shape["racks"] > 1 and not shape["even"] & EVEN_RACKS
        ring = shape["gpus"] if flat_over_racks else shape["racks"]
        between_racks = 2.0 * (ring - 1) / ring
        in_rack = shape["gpus"] // shape["racks"]
        machines = shape["machines"] // shape["racks"]
        within = 0.0
        if machines > 1 and not flat_over_racks:
            ring = machines if shape["even"] & EVEN_MACHINES else in_rack
            within = 2.0 * (ring - 1) / ring
        for row in range(first[job], first[job + 1]):
            share = 1.0 if flat_over_racks else _count(gpu_bits[row]) / in_rack
            loads[filled] = within + between_racks * share
            filled += 1
            rack = rack_of[nodes[row]]
            if shape["racks"] > 1 and last_job_of[rack] != job:
                last_job_of[rack] = job
                loads[filled] = between_racks
                filled += 1
    return loads[:filled]
