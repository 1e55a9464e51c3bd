"""Rings of workers in whole runs: sized for their best place, slowed by the one they have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from muster.cluster import Cluster, Link, Links, Node
from muster.cluster.ledger import NodeAllocation
from muster.speed.network.models import LayeredModel
from muster.speed.network.placement import place, shapes_of
from muster.speed.network.speed import NetworkSpeed
from muster.speed.parameter_server.ring import best_places
from tests.building import column, finishes, jobs_of, run
from tests.schedulers.smd_cases import sized_job
from tests.schedulers.test_smd_runs import Puts

LINKS = Links(Link(10.0, 0.0), Link(10.0, 0.0), Link(1.0, 0.0), Link(0.5, 0.0))
"""GB/s: 10 inside a machine, 1 between machines, 0.5 between racks."""
MODEL = LayeredModel(
    "net",
    np.array([0.6, 0.4]),
    np.array([0.1, 0.1]),
    np.array([0.1, 0.3]),
    np.array([1.0, 0.2]),
    np.zeros(2),
    64.0,
)
LAYERS = {"net": MODEL}


def cluster_of(*machines_by_rack: int, gpus: int = 4) -> Cluster:
    """Machines of so many GPUs in one island, by rack."""
    racks = [rack for rack, machines in enumerate(machines_by_rack) for _ in range(machines)]
    nodes = tuple(
        Node(f"n{at}", "t", rack, gpus, "v100", gpus, 8.0 * gpus, 64.0, 1.0, 1.0)
        for at, rack in enumerate(racks)
    )
    return Cluster("links", nodes, tuple(f"r{rack}" for rack in range(len(machines_by_rack))), LINKS)


def ring_job(**more: Any) -> dict[str, Any]:
    """64 samples a step over all workers."""
    no_servers = {"servers": None, "server_cpus": None, "server_memory_gb": None, "nic_gb_per_s": None}
    return sized_job(model="net", sync="ring", batch=64, **no_servers) | more


def exposed(gpus_by_rack: list[list[int]], cluster: Cluster) -> float:
    """As the network model has it."""
    placements = place(gpus_by_rack, cluster)
    assert placements is not None
    speed = NetworkSpeed([MODEL], cluster)
    return float(speed.exposed_seconds(np.array([0]), shapes_of(placements, speed.tree))[0])


def step(workers: int, exposed_seconds: float) -> float:
    """A second of forward for 64 samples on one GPU; 0.5 s of backward but for the first layer's input."""
    return 1.0 / workers + 0.5 + exposed_seconds


def on(node: int, *gpus: int) -> NodeAllocation:
    return NodeAllocation(node, gpus, cpus=2.0 * len(gpus), memory_gb=4.0 * len(gpus))


@pytest.mark.parametrize(
    ("shares", "gpus_by_rack"),
    [
        ([on(0, 1)], [[1]]),
        ([on(0, 0, 1, 2)], [[3]]),
        ([on(0, 0, 1), on(1, 2, 3)], [[2, 2]]),
        ([on(0, 0, 1, 2), on(1, 0)], [[3, 1]]),
        ([on(0, 0, 1), on(2, 0, 1)], [[2], [2]]),
        ([on(0, 3), on(1, 0), on(2, 1), on(3, 2)], [[1, 1], [1, 1]]),
    ],
)
def test_a_ring_goes_at_the_pace_of_its_place(
    shares: list[NodeAllocation], gpus_by_rack: list[list[int]]
) -> None:
    cluster = cluster_of(2, 2)
    result = run(jobs_of(ring_job()), cluster, Puts(*shares), layers=LAYERS)
    workers = sum(map(sum, gpus_by_rack))
    slowed = exposed(gpus_by_rack, cluster)
    assert finishes(result) == pytest.approx([1000 * step(workers, slowed)])
    assert column(result, "communication_seconds") == pytest.approx([1000 * slowed])
    assert (slowed > 0) == (workers > 1)


def test_two_machines_of_one_gpu_by_hand() -> None:
    """2 (w - 1) / w of 1.2 GB over 1 GB/s; 0.2 GB of it may travel while the first layer computes for 0.1 s."""
    shares = [on(0, 0), on(1, 0)]
    result = run(jobs_of(ring_job()), cluster_of(2), Puts(*shares), layers=LAYERS)
    # The last layer is ready 0.1 s of its inputs' gradient and 0.1 s of the first layer's weights before the end.
    assert finishes(result) == pytest.approx([1000 * (1 / 2 + 0.5 + max(0.2 - 0.2, 0.0) + 1.0)])
    free = run(jobs_of(ring_job()), cluster_of(2), Puts(*shares), layers=LAYERS, network="none")
    assert finishes(free) == pytest.approx([1000 * (1 / 2 + 0.5)])


@pytest.mark.parametrize(
    ("racks", "most", "name"),
    [
        ((3,), 3, "smd"),
        ((3,), 11, "smd"),
        ((2, 2), 6, "smd"),
        ((2, 2), 12, "smd-reservation"),
        ((1, 1, 1), 6, "first-fit-sized"),
        ((1, 1, 1), 12, "smd"),
    ],
)
def test_alone_a_ring_gets_its_fastest_number_of_workers(
    racks: tuple[int, ...], most: int, name: str
) -> None:
    """Against every number on the place that the rule names, priced by the network model."""
    cluster = cluster_of(*racks)
    result = run(jobs_of(ring_job(max_workers=most)), cluster, name, layers=LAYERS)
    steps = []
    for workers, ring in enumerate(best_places(np.full(sum(racks), 4), cluster, most), 1):
        by_rack: dict[int, list[int]] = {}
        for node, count in ring:
            by_rack.setdefault(cluster.nodes[node].rack, []).append(count)
        steps.append(step(workers, exposed(list(by_rack.values()), cluster)))
    assert finishes(result) == pytest.approx([1000 * min(steps)])
    held = result.record.allocations
    best = int(np.argmin(steps))
    placed = sorted(held["gpus"].to_list(), reverse=True)
    assert placed == [count for _, count in best_places(np.full(sum(racks), 4), cluster, most)[best]]


def test_a_ring_is_in_one_rack_though_racks_alternate() -> None:
    """Machines of two racks by turns, all as empty: six workers run on two of one rack, not on the first two."""
    cluster = cluster_of(2, 2)
    turns = replace(cluster, nodes=tuple(replace(node, rack=at % 2) for at, node in enumerate(cluster.nodes)))
    ring = ring_job(min_workers=6, gpus=6, max_workers=6)
    result = run(jobs_of(ring), turns, "smd", layers=LAYERS)
    assert set(result.record.allocations["node"]) == {"n0", "n2"}
    assert finishes(result) == pytest.approx([1000 * step(6, exposed([[3, 3]], turns))])


def test_rings_on_the_same_uplinks_slow_each_other() -> None:
    """Each machine's card is shared fairly while both send; in the long run one computes while the other sends."""

    class Side(Puts):
        def decide(self, snapshot: Any, state: Any) -> Any:
            with snapshot.transaction() as transaction:
                for number in snapshot.jobs.index.tolist():
                    transaction.put(
                        number, [on(0, 2 * number, 2 * number + 1), on(1, 2 * number, 2 * number + 1)]
                    )
                return self.plan(snapshot, transaction, 0, stable_until=np.inf), state

    cluster, two = cluster_of(2), jobs_of(ring_job(), ring_job())
    apart = run(two, cluster, Side(), layers=LAYERS)
    alone = step(4, exposed([[2, 2]], cluster))
    assert finishes(apart) == pytest.approx([1000 * alone] * 2)
    together = run(two, cluster, Side(), layers=LAYERS, contention=True)
    # Each sends 2 (M - 1) / M of 1.2 GB a step over its machines' uplinks of 1 GB/s, which are then never idle.
    assert alone < 2 * 1.2
    assert finishes(together) == pytest.approx([1000 * 2 * 1.2] * 2, rel=0.1)


def test_a_worker_of_two_gpus_is_one_rank() -> None:
    """Two workers on each of two machines, four GPUs a machine, talk as two ranks on each."""
    pairs = ring_job(worker_gpus=2, gpus=8, max_workers=4, min_workers=4)
    cluster = cluster_of(2)
    result = run(jobs_of(pairs), cluster, "smd", layers=LAYERS)
    assert finishes(result) == pytest.approx([1000 * step(4, exposed([[2, 2]], cluster))])
    # A gang of a scheduler that does not size, its workers split over machines: still four ranks.
    split = [on(0, 0, 1, 2), on(1, 0, 1, 2), on(2, 0, 1)]
    odd = run(jobs_of(pairs), cluster_of(3), Puts(*split), layers=LAYERS)
    assert finishes(odd) == pytest.approx([1000 * step(4, exposed([[2, 1, 1]], cluster_of(3)))])


def test_without_sizing_a_ring_is_slowed_by_its_place_too() -> None:
    cluster = cluster_of(2, 2)
    for name, gpus_by_rack in (("fifo", [[2]]), ("fifo+spread", [[1, 1]])):
        result = run(jobs_of(ring_job()), cluster, name, layers=LAYERS)
        assert finishes(result)[0] == pytest.approx(1000 * step(2, exposed(gpus_by_rack, cluster))), name


def test_without_layers_all_of_the_reduction_counts() -> None:
    """Optimus sees nothing overlap, and never more workers than a scheduler that knows the layers."""
    rows = jobs_of(ring_job(max_workers=8))
    knows = run(rows, cluster_of(2), "optimus", {"layers": "true"}, layers=LAYERS)
    oblivious = run(rows, cluster_of(2), "optimus", layers=LAYERS)
    held = [result.record.allocations["gpus"].sum() for result in (knows, oblivious)]
    assert held[1] <= held[0]
    assert column(oblivious, "finish_seconds")[0] >= column(knows, "finish_seconds")[0] - 1e-6


def test_gangs_of_the_same_model_keep_the_network_of_their_kind() -> None:
    """A shipped model's gang beside a ring of that name is as insensitive on one rack as alone, without a note."""
    gang = {"submit_seconds": 0.0, "gpus": 2, "iterations": 100.0, "model": "resnet50"}
    ring = ring_job(model="resnet50", gpus=2, max_workers=2)
    beside = run(jobs_of(gang, ring), cluster_of(2), "fifo")
    assert finishes(beside)[0] == finishes(run(jobs_of(gang), cluster_of(2), "fifo"))[0]
    assert column(beside, "model") == ["resnet50", "resnet50"]
    assert not any("no network model" in note for note in beside.record.run["trace"]["notes"])
    racks = run(jobs_of(gang | {"model": "gnmt"}, gang, ring | {"model": "vgg16"}), cluster_of(1, 1), "fifo")
    assert [note for note in racks.record.run["trace"]["notes"] if "no network model" in note] == [
        "no network model for gnmt: taken as insensitive to the network"
    ]
