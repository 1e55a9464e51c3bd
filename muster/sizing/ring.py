"""The best number of workers of one ring (all-reduce) on a cluster, and where they would run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger_arrays import Floats
from muster.formatting import gpus
from muster.problems import InputError, Problem
from muster.schedulers.workers_and_servers.sizes import Demands
from muster.sizing.servers import NEARLY, RESOURCES
from muster.speed.input_pipeline import model_table
from muster.speed.local_batch import local_batches
from muster.speed.network.model_file import network_of
from muster.speed.network.models import LayeredModel
from muster.speed.network.placement import shapes_of
from muster.speed.network.speed import NetworkSpeed
from muster.speed.network.survey import written
from muster.speed.parameter_server.ring import RingPlace, best_places, ranks, rooms, seconds_by_workers, step
from muster.workload.models import Model

UNSTATED_BATCH = 32
"""Samples of a GPU in an iteration of a model whose file does not state them."""


@dataclass(frozen=True, eq=False)
class SizedRing:
    """The best number of workers of one ring; the sequences go by workers from 1 on."""

    workers: int
    places: Sequence[str]
    """Workers of each machine, racks parted by a slash."""
    iteration_seconds: Sequence[float]
    completion_seconds: Sequence[float]
    stage_seconds: Mapping[str, float]
    """Of one iteration with the best number."""
    usage: Mapping[str, float]
    short_of_machines: bool
    """Whether the limit allows more workers than the cluster has room for."""

    @property
    def thrifty(self) -> int:
        """The fewest workers that are nearly as fast."""
        enough = self.completion_seconds[self.workers - 1] * (1 + NEARLY)
        return next(at for at, seconds in enumerate(self.completion_seconds, 1) if seconds <= enough)


def sized_ring(
    model: LayeredModel | Model,
    batch: int,
    cluster: Cluster,
    worker: Mapping[str, float],
    limits: Mapping[str, float],
    iterations: int,
) -> SizedRing:
    """The best number of workers that limit, samples of the batch and cluster allow; of equals the fewest."""
    needs = [worker.get(resource, 0.0) for resource in RESOURCES]
    fits, kind_of_node = rooms(np.array([needs]), cluster)
    room = fits[0][kind_of_node]
    problems = []
    if needs[0] < 1 or needs[0] != int(needs[0]):
        problems.append(
            Problem("--worker", "a worker of a ring has whole GPUs", column="gpu", found=needs[0])
        )
    elif not room.any():
        asked = ",".join(f"{name}={amount:g}" for name, amount in worker.items())
        what = f"no machine of cluster {cluster.name} holds one worker; the largest has "
        what += f"{gpus(cluster.most_gpus_per_node)}"
        problems.append(Problem("--worker", what, found=asked))
    if problems:
        raise InputError(*problems)
    limited = [resource for resource in RESOURCES if resource in limits]
    demands = Demands.checked(
        [*(worker.get(resource, 0.0) for resource in limited), 0.0],
        [*(0.0 for _ in limited), 1.0],
        [*(limits[resource] for resource in limited), 1.0],
        [*limited, "servers"],
        ["--limit"],
    )
    allowed = min(int(demands.most(demands.worker, demands.server)[0]), batch)
    most = min(allowed, int(room.sum()))
    places = best_places(room, cluster, most)
    compute, communication, least = (
        _of_registry(model, batch, cluster, places, int(needs[0]))
        if isinstance(model, Model)
        else _of_layers(model, batch, cluster, places, int(needs[0]))
    )
    iteration = np.maximum(compute + communication, least)
    best = int(iteration.argmin())
    return SizedRing(
        best + 1,
        [_place(place, cluster) for place in places],
        iteration.tolist(),
        [iterations * each for each in iteration.tolist()],
        _stages(float(compute[best]), float(communication[best]), float(iteration[best])),
        {resource: (best + 1) * worker.get(resource, 0.0) for resource in limited},
        allowed > most,
    )


def _stages(compute: float, communication: float, whole: float) -> dict[str, float]:
    """Of one iteration, with the rest of it as waiting for input where there is a rest."""
    stages = {"compute": compute, "communication": communication}
    waiting = whole - (compute + communication)
    return stages | {"waiting_for_input": waiting} if waiting > 0 else stages


def _of_layers(
    model: LayeredModel, batch: int, cluster: Cluster, places: Sequence[RingPlace], worker_gpus: int
) -> tuple[Floats, Floats, Floats]:
    """Compute and exposed communication of an iteration on each place, and what input takes at least, in seconds.

    Here by the layers of a model, of which no input is known.
    """
    seconds = seconds_by_workers(NetworkSpeed([model], cluster), 0, places, worker_gpus)
    workers, no_servers = np.arange(1.0, len(places) + 1), np.ones(len(places))
    compute, communication, _ = step(model, batch, seconds.exposed).stage_seconds(workers, no_servers)
    return compute, communication, np.zeros_like(compute)


def _of_registry(
    model: Model, batch: int, cluster: Cluster, places: Sequence[RingPlace], worker_gpus: int
) -> tuple[Floats, Floats, Floats]:
    """Likewise by the model's file: a gang of that total batch (`speed.worker_options`) with the most CPUs measured."""
    file = network_of(model)
    network = None if file is None else file.model
    speed, number = NetworkSpeed([network], cluster), np.zeros(len(places), np.int64)
    ratio = batch / ((model.batch or UNSTATED_BATCH) * np.arange(1.0, len(places) + 1))
    samples, passes, last_pass = local_batches(model_table([model]), number, ratio)
    exposed = speed.exposed_seconds(number, shapes_of(ranks(places, worker_gpus), speed.tree), last_pass)
    profiled = model.compute_seconds if network is None else float(speed.compute_seconds[0])
    compute = model.compute_seconds * (passes * last_pass)
    return compute, exposed * (model.compute_seconds / profiled), samples * model.least_input_seconds


def _place(ring: RingPlace, cluster: Cluster) -> str:
    """Workers of each machine, racks parted by a slash: as `muster network --placement` takes them."""
    by_rack: dict[int, list[int]] = {}
    for node, workers in ring:
        by_rack.setdefault(cluster.nodes[node].rack, []).append(workers)
    return written(list(by_rack.values()))
