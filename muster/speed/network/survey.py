"""How fast one model runs on each kind of placement of an empty cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from muster.cluster import Cluster
from muster.speed.network.placement import Placements, place, shapes_of
from muster.speed.network.speed import NetworkSpeed

ONE_ISLAND = "1 island"
KINDS = (
    "1 GPU",
    ONE_ISLAND,
    "1 machine",
    "fewest machines",
    "2 machines",
    "1 GPU a machine",
    "2 racks",
    "2 racks, 1 GPU a machine",
)
PACKED_KINDS = KINDS[:4]
"""As close together as that many GPUs can be."""
GpusByRack = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Surveyed:
    """One model on one placement, alone."""

    kind: str
    placement: str
    """GPUs of each machine, racks parted by a slash: `4,4/8`."""
    gpus: int
    iteration_seconds: float
    efficiency: float
    """compute / (compute + exposed communication)."""
    exposed_seconds: float
    """Communication that compute does not hide."""
    all_reduce_seconds: float
    """Of all gradients, one after the other, hidden or not."""


def survey(
    speed: NetworkSpeed,
    cluster: Cluster,
    most_gpus: int,
    compute_seconds: float | None = None,
    input_seconds: float = 0.0,
) -> list[Surveyed]:
    """Model 0 of `speed` on every kind of placement that the cluster has, for 1, 2, 4, ... GPUs.

    A placement that is of several kinds is listed once, under the first of them. `compute_seconds` of an iteration may
    be others than those of the network's profile; then all seconds are longer or shorter alike, and the efficiency is
    the profile's. No iteration takes less than `input_seconds`.
    """
    counts = [1 << power for power in range(most_gpus.bit_length()) if 1 << power < most_gpus] + [most_gpus]
    rows = []
    for gpus in counts:
        seen = set()
        for kind, gpus_by_rack in _kinds(gpus, cluster):
            placements = _placed(kind, gpus_by_rack, cluster)
            if placements is not None and written(gpus_by_rack) not in seen:
                seen.add(written(gpus_by_rack))
                rows.append(look_at(speed, kind, gpus_by_rack, placements, compute_seconds, input_seconds))
    return rows


def look_at(
    speed: NetworkSpeed,
    kind: str,
    gpus_by_rack: GpusByRack,
    placements: Placements,
    compute_seconds: float | None = None,
    input_seconds: float = 0.0,
) -> Surveyed:
    """Model 0 of `speed` on one placement; `compute_seconds` and `input_seconds` as for `survey`."""
    shapes = shapes_of(placements, speed.tree)
    model = np.zeros(1, dtype=np.int64)
    stage = speed.stages(model, shapes)[0]
    profiled = float(speed.compute_seconds[0])
    compute = profiled if compute_seconds is None else compute_seconds
    longer = compute / profiled if profiled else 1.0
    exposed = float(stage["exposed_seconds"]) * longer
    return Surveyed(
        kind,
        written(gpus_by_rack),
        int(shapes[0]["gpus"]),
        max(input_seconds, compute + exposed),
        float(speed.efficiency(model, shapes)[0]),
        exposed,
        float(stage["all_reduce_seconds"]) * longer,
    )


def written(gpus_by_rack: GpusByRack) -> str:
    """The placement as users write it."""
    return "/".join(",".join(map(str, gpus)) for gpus in gpus_by_rack)


def _placed(kind: str, gpus_by_rack: GpusByRack, cluster: Cluster) -> Placements | None:
    """The placement of a kind; None if the cluster has no room for it."""
    if kind != ONE_ISLAND:
        return place(gpus_by_rack, cluster)
    ((gpus,),) = gpus_by_rack
    return Placements.on_node(_with_island(gpus, cluster)[0], gpus)


def _with_island(gpus: int, cluster: Cluster) -> list[int]:
    """The machines with an island of so many GPUs."""
    nodes = enumerate(cluster.nodes)
    return [number for number, node in nodes if min(node.gpus, node.gpus_per_island) >= gpus]


def _kinds(gpus: int, cluster: Cluster) -> Iterator[tuple[str, GpusByRack]]:
    """Every kind that this many GPUs can be spread in, whether the cluster has room for it or not."""
    if gpus == 1:
        yield "1 GPU", [[1]]
        return
    yield ONE_ISLAND if _with_island(gpus, cluster) else "1 machine", [[gpus]]
    if fewest := _fewest_in_racks(gpus, cluster)[:1]:
        yield "fewest machines", fewest
    if gpus % 2 == 0:
        yield "2 machines", [[gpus // 2, gpus // 2]]
    yield "1 GPU a machine", [[1] * gpus]
    if gpus % 2 == 0:
        halves = _fewest_in_racks(gpus // 2, cluster)[:2]
        if len(halves) == 2:
            yield "2 racks", halves
        yield "2 racks, 1 GPU a machine", [[1] * (gpus // 2)] * 2


def _fewest_in_racks(gpus: int, cluster: Cluster) -> list[list[int]]:
    """By rack with room, as many GPUs of its largest machines as it takes; racks with the fewest machines first."""
    found = []
    for rack in cluster.nodes_by_rack:
        machines = sorted((cluster.nodes[number].gpus for number in rack), reverse=True)
        reached = np.minimum(np.cumsum([0, *machines]), gpus)
        if reached[-1] == gpus:
            taken = np.diff(reached)
            found.append(taken[taken > 0].tolist())
    return sorted(found, key=len)
