"""A ring of workers: what reducing the gradients among them adds to a step (data-parallel training, all-reduce).

Each worker is one rank and holds all gradients. A layer's all-reduce starts when its backward pass is done and waits
for its turn on the links that the workers' place crosses; what of it compute does not hide is the network model's
answer (`speed.network`). It does not depend on the batch: a shorter forward pass moves the whole queue.

To choose how many workers, a ring is taken to run on its best place: even parts of one rack's machines, the fewest
that hold them; else of any machines; else as many on a machine as it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Floats, Ints
from muster.problems import InputError, Problem
from muster.speed.network.models import LayeredModel
from muster.speed.network.placement import Placements, shapes_of
from muster.speed.network.speed import NetworkSpeed
from muster.speed.parameter_server.architectures import SAMPLES_A_BACKWARD_PASS
from muster.speed.parameter_server.layers import Layers
from muster.speed.parameter_server.step_time import StepTime

RingPlace = list[tuple[int, int]]
"""Machines, by number, and the workers on each."""
ROUNDING = 1e-9
"""Of what a machine has: three workers of 0.1 fit in 0.3."""
MACHINE = ("gpus", "cpus", "memory_gb")
"""What a worker takes of its machine."""


@dataclass(frozen=True, eq=False)
class RingSeconds:
    """By workers from 1 on."""

    exposed: Floats
    """What compute does not hide."""
    whole: Floats
    """All of it, one layer after the other: what is exposed to a scheduler that does not know the layers."""


def layered_model(name: str, layers: Layers) -> LayeredModel:
    """Layers computed from a definition as the network model takes them: a gradient is there after its layer."""
    nothing = np.zeros(len(layers))
    batch = SAMPLES_A_BACKWARD_PASS
    forward = layers.forward_seconds_per_sample * batch
    return LayeredModel(
        name, forward, nothing, layers.backward_seconds, layers.gradient_gb, nothing, float(batch)
    )


def compute_seconds(model: LayeredModel, batch: float) -> tuple[float, float]:
    """Seconds of forward for a batch, to be shared by the workers, and of backward; the network model's own."""
    forward = float(model.forward_seconds.sum())
    return batch * forward / model.batch, model.messages().compute_seconds - forward


def seconds_by_workers(
    speed: NetworkSpeed, model: int, places: Sequence[RingPlace], worker_gpus: int
) -> RingSeconds:
    """A ring of `model` (its number in `speed`) on each of these places."""
    shapes = shapes_of(ranks(places, worker_gpus), speed.tree)
    stages = speed.stages(np.full(len(places), model), shapes)
    exposed = stages["exposed_seconds"]
    return RingSeconds(exposed, np.maximum(stages["all_reduce_seconds"], exposed))


def ranks(places: Sequence[RingPlace], worker_gpus: int) -> Placements:
    """Places as the network model takes them: one GPU of each worker, on machines that are empty otherwise."""
    rows = [row for place in places for row in place]
    first = np.cumsum([0, *(len(place) for place in places)])
    bits = [sum(1 << worker_gpus * worker for worker in range(workers)) for _, workers in rows]
    return Placements(first, np.array([node for node, _ in rows], np.int64), np.array(bits, np.int64))


def step(model: LayeredModel, batch: float, ring_seconds: Floats) -> StepTime:
    """The step of a ring to which the network adds so much; `batch` is the job's, over all its workers."""
    if not (np.isfinite(batch) and batch > 0):
        raise InputError(Problem("batch", "allowed: a finite number above 0", found=batch))
    compute = np.array(compute_seconds(model, batch))
    nothing = np.zeros(())
    alone = np.append(compute, 0.0)[None]
    return StepTime(alone, compute, nothing, nothing, np.asarray(False), ring_seconds)


def rooms(workers: Floats, cluster: Cluster) -> tuple[Ints, Ints]:
    """(workers, kinds of machine) how many workers, by their needs, an empty machine holds; the nodes' kinds."""
    has = np.array([[getattr(node, amount) for amount in MACHINE] for node in cluster.nodes], np.float64)
    kinds, kind_of_node = np.unique(has, axis=0, return_inverse=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(workers[:, None] > 0, kinds / workers[:, None] * (1 + ROUNDING), np.inf)
    return np.floor(times.min(axis=2)).astype(np.int64), kind_of_node.reshape(-1)


def best_places(room: Ints, cluster: Cluster, most: int) -> list[RingPlace]:
    """The best places of 1, 2, ... workers in the empty cluster; `room` says how many each machine has room for."""

    def roomiest(nodes: Sequence[int]) -> list[int]:
        return sorted((node for node in nodes if room[node] > 0), key=lambda node: -room[node])

    anywhere = roomiest(range(len(cluster.nodes)))
    racks = [roomiest(rack) for rack in cluster.nodes_by_rack]
    return [
        _evenly(workers, racks, room)
        or _evenly(workers, [anywhere], room)
        or _filled(workers, anywhere, room)
        for workers in range(1, min(most, int(room.sum())) + 1)
    ]


def _evenly(workers: int, groups: Sequence[Sequence[int]], room: Ints) -> RingPlace:
    """Even parts on the fewest machines of one group; nothing where no group has them."""
    for machines in range(1, workers + 1):
        part, more = divmod(workers, machines)
        for group in groups:
            if len(group) >= machines and room[group[machines - 1]] >= part + (more > 0):
                return [(node, part + (at < more)) for at, node in enumerate(group[:machines])]
    return []


def _filled(workers: int, nodes: Sequence[int], room: Ints) -> RingPlace:
    """As many as each machine holds."""
    place = []
    for node in nodes:
        taken = min(workers, int(room[node]))
        if taken:
            place.append((node, taken))
        workers -= taken
    return place
