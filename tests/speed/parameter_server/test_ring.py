"""Rings of workers: their closed form, their agreement with the network model, and the best places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Link, Links, Node
from muster.problems import InputError
from muster.speed.network.models import LayeredModel
from muster.speed.network.placement import place
from muster.speed.network.speed import NetworkSpeed
from muster.speed.network.survey import look_at
from muster.speed.parameter_server import Layers, layered, stack
from muster.speed.parameter_server.ring import (
    RingPlace,
    best_places,
    compute_seconds,
    layered_model,
    rooms,
    seconds_by_workers,
    step,
)
from tests.speed.parameter_server.layer_cases import Case, cases

LINKS = Links(Link(50.0, 1e-6), Link(20.0, 1e-6), Link(4.0, 5e-6), Link(2.0, 2e-5))
PROFILED_BATCH = 16.0
some = settings(max_examples=60, deadline=None)


def cluster_of(*gpus_by_rack: list[int], links: Links = LINKS, nic_gb_per_s: float = 1.25) -> Cluster:
    """Machines with so many GPUs, in islands of four, by rack."""
    nodes = tuple(
        Node(f"n{rack}-{at}", "t", rack, gpus, "v100", 4, 8.0 * gpus, 32.0 * gpus, 1.0, nic_gb_per_s)
        for rack, machines in enumerate(gpus_by_rack)
        for at, gpus in enumerate(machines)
    )
    return Cluster("made", nodes, tuple(f"r{rack}" for rack in range(len(gpus_by_rack))), links)


def model_of(layers: Layers) -> LayeredModel:
    """Layers as a profile has them: the backward pass parted into the gradients of inputs and of weights."""
    backward = layers.backward_seconds
    forward = layers.forward_seconds_per_sample * PROFILED_BATCH
    nothing = np.zeros(len(layers))
    return LayeredModel(
        "made", forward, 0.4 * backward, 0.6 * backward, layers.gradient_gb, nothing, PROFILED_BATCH
    )


@some
@given(cases(), st.integers(1, 16))
def test_one_layer_on_one_flat_level_is_the_closed_form(case: Case, workers: int) -> None:
    one = Layers.checked([1e-3], case.layers.backward_seconds[:1], case.layers.gradient_gb[:1])
    flat = Links(island=Link(case.nic_gb_per_s, 0.0))
    cluster = Cluster("flat", (Node("n", "t", 0, 16, "v100", 16, 64.0, 64.0, 1.0, 1.0),), ("r",), flat)
    model = layered_model("one", one)
    found = seconds_by_workers(NetworkSpeed([model], cluster), 0, [[(0, workers)]], 1)
    reduce = 2 * (workers - 1) / workers * float(one.gradient_gb[0]) / case.nic_gb_per_s
    expected = case.batch * 1e-3 / workers + float(one.backward_seconds[0]) + reduce
    ring = step(model, case.batch, np.full(workers, found.exposed[0]))
    assert float(ring.iteration_seconds(workers, 1)) == pytest.approx(expected, rel=1e-9)
    assert found.whole[0] == pytest.approx(reduce, rel=1e-9, abs=1e-15)


@some
@given(cases(), st.integers(2, 16))
def test_layers_overlap_as_the_events_say(case: Case, workers: int) -> None:
    """One flat level: an all-reduce starts when its layer's backward pass is done and the links are free."""
    layers, hop, rate = case.layers, 3e-6, case.nic_gb_per_s
    cluster = Cluster(
        "flat",
        (Node("n", "t", 0, 16, "v100", 16, 64.0, 64.0, 1.0, 1.0),),
        ("r",),
        Links(island=Link(rate, hop)),
    )
    found = seconds_by_workers(
        NetworkSpeed([layered_model("m", layers)], cluster), 0, [[(0, workers)]], 1
    ).exposed[0]
    computed = links_free = 0.0
    for backward, gb in zip(layers.backward_seconds[::-1], layers.gradient_gb[::-1], strict=True):
        computed += float(backward)
        links_free = max(links_free, computed)
        links_free += 2 * (workers - 1) * hop + 2 * (workers - 1) / workers * float(gb) / rate
    assert found == pytest.approx(max(links_free, computed) - computed, rel=1e-9, abs=1e-12)


@some
@given(
    cases(), st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=3), min_size=1, max_size=2), st.data()
)
def test_a_step_is_what_the_network_model_says_of_the_same_place(
    case: Case, gpus_by_rack: list[list[int]], data: st.DataObject
) -> None:
    """A batch of as many samples a worker as were profiled: then `muster network` gives the very step."""
    cluster = cluster_of([8, 8, 8], [8, 8, 8])
    model = model_of(case.layers)
    speed = NetworkSpeed([model], cluster)
    placements = place(gpus_by_rack, cluster)
    assert placements is not None
    reply = look_at(speed, "as given", gpus_by_rack, placements)
    ring: RingPlace = [
        (rack * 3 + at, gpus)
        for rack, machines in enumerate(gpus_by_rack)
        for at, gpus in enumerate(machines)
    ]
    workers = reply.gpus
    exposed = seconds_by_workers(speed, 0, [ring], 1).exposed
    one_step = step(model, PROFILED_BATCH * workers, np.full(workers, exposed[0]))
    assert float(one_step.iteration_seconds(workers, 1)) == pytest.approx(reply.iteration_seconds, rel=1e-9)
    stages = one_step.stage_seconds(workers, 1)
    assert float(stages[1]) == pytest.approx(reply.exposed_seconds, rel=1e-6, abs=1e-12)


@some
@given(cases(), st.integers(2, 40), st.floats(1.0, 8.0))
def test_more_bandwidth_never_slows_a_ring(case: Case, workers: int, times: float) -> None:
    model = model_of(case.layers)

    def seconds(cluster: Cluster) -> tuple[float, float]:
        places = best_places(np.full(6, 8), cluster, workers)[-1:]
        found = seconds_by_workers(NetworkSpeed([model], cluster), 0, places, 1)
        assert found.exposed[0] <= found.whole[0] + 1e-12
        return float(found.exposed[0]), float(found.whole[0])

    faster = Links(
        *(
            Link(times * link.gb_per_s, link.latency_seconds)
            for link in (LINKS.island, LINKS.node, LINKS.rack, LINKS.cluster)
        )
    )
    slow = seconds(cluster_of([8, 8, 8], [8, 8, 8]))
    fast = seconds(cluster_of([8, 8, 8], [8, 8, 8], links=faster, nic_gb_per_s=1.25 * times))
    assert fast[0] <= slow[0] + 1e-12
    assert fast[1] <= slow[1] + 1e-12


def test_a_worker_is_one_rank_however_many_gpus_it_has() -> None:
    """Four workers of two GPUs are in two islands, and two of them in each; alone, a worker sends nothing."""
    model = model_of(Layers.checked([1e-3], [0.1], [1.0]))
    cluster = cluster_of([8, 8])
    speed = NetworkSpeed([model], cluster)
    pairs = seconds_by_workers(speed, 0, [[(0, 1)], [(0, 2)], [(0, 4)], [(0, 2), (1, 2)]], 2).exposed
    hop, island, between = 1e-6, 50.0, 20.0
    in_island = 2 * hop + 1.0 / island
    assert pairs[0] == 0.0
    assert pairs[1] == pytest.approx(in_island)
    assert pairs[2] == pytest.approx(in_island + 2 * hop + 0.5 / (between / 2))
    # Two machines at 1.25 GB/s, whose two workers share the card, each with its half of the gradients.
    assert pairs[3] == pytest.approx(in_island + 2 * 5e-6 + 0.5 / (1.25 / 2))


def brute_force_machines(workers: int, rooms_of_rack: list[int]) -> int | None:
    """The fewest machines of a rack that hold even parts."""
    for count in range(1, workers + 1):
        if sum(room >= math.ceil(workers / count) for room in rooms_of_rack) >= count:
            return count
    return None


@some
@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_best_place_is_even_on_few_machines_of_one_rack(room_by_rack: list[list[int]]) -> None:
    cluster = cluster_of(*([8] * len(rack) for rack in room_by_rack))
    room = np.array([count for rack in room_by_rack for count in rack])
    found = best_places(room, cluster, 100)
    assert len(found) == room.sum()
    for workers, ring in enumerate(found, 1):
        nodes, counts = zip(*ring, strict=True)
        assert sum(counts) == workers
        assert len(set(nodes)) == len(nodes)
        assert (np.array(counts) <= room[list(nodes)]).all()
        fewest = [brute_force_machines(workers, rack) for rack in room_by_rack]
        anywhere = brute_force_machines(workers, room.tolist())
        in_a_rack = min((count for count in fewest if count), default=None)
        if in_a_rack or anywhere:
            assert len(nodes) == (in_a_rack or anywhere)
            assert max(counts) - min(counts) <= 1
        if in_a_rack:
            assert len({cluster.nodes[node].rack for node in nodes}) == 1


def test_rooms_go_by_every_need() -> None:
    cluster = cluster_of([8, 4], [0 + 4])
    fits, kind = rooms(np.array([[1.0, 0.0, 0.0], [2.0, 8.0, 0.0], [1.0, 0.1, 100.0]]), cluster)
    assert fits[:, kind].tolist() == [[8, 4, 4], [4, 2, 2], [2, 1, 1]]


def test_rings_and_servers_in_one_stack() -> None:
    layers = Layers.checked([1e-3, 2e-3], [0.1, 0.2], [0.3, 0.1])
    ring = step(layered_model("m", layers), 64, np.array([0.0, 0.25]))
    servers = layered(layers, 64, 1.0)
    together = stack([ring, servers])
    w, p = np.arange(1.0, 4)[:, None], np.arange(1.0, 4)[None, :]
    seconds = together.iteration_seconds(w[None], p[None])
    np.testing.assert_array_equal(seconds[1], servers.iteration_seconds(w, p))
    forward, backward = compute_seconds(layered_model("m", layers), 64)
    expected = [forward + backward, forward / 2 + backward + 0.25, forward / 3 + backward + 0.25]
    np.testing.assert_allclose(seconds[0], np.array(expected)[:, None] + 0 * p)
    np.testing.assert_allclose(together[np.array([0])].iteration_seconds(w[None], p[None])[0], seconds[0])


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="batch: found 0"):
        step(layered_model("m", Layers.checked([1.0], [1.0], [1.0])), 0, np.zeros(1))
