"""The network stage as the simulator asks for it: cached, alone and among neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Link, Links, Node
from muster.speed.network.models import CompactModel, MeasuredModel, NetworkModel
from muster.speed.network.placement import Placements, place, shapes_of
from muster.speed.network.speed import NetworkSpeed

NIC = 2.0
CLUSTER = Cluster(
    "small",
    tuple(Node(f"n{i}", "t", i // 4, 4, "V100", 4, 8.0, 99.0, 0.5, NIC) for i in range(8)),
    ("a", "b"),
    Links(island=Link(100.0, 0.0), rack=Link(10.0, 1e-6), cluster=Link(10.0, 5e-6, 2.0)),
)
HEAVY = CompactModel("heavy", 0.1, 10, 1.0, 0.3, 1.0, 1.0, 0.1, 0.0, 0.0, 0.0)
LIGHT = CompactModel("light", 1.0, 10, 0.01, 0.3, 1.0, 1.0, 0.1, 0.0, 0.0, 0.0)
MEASURED = MeasuredModel("measured", 0.5, 0.1, 0.01, 0.4, 0.02, 2.0, 4.0)
MODELS: list[NetworkModel | None] = [HEAVY, LIGHT, MEASURED, None]


def indices(*models: int) -> npt.NDArray[np.int64]:
    return np.array(models, dtype=np.int64)


def jobs(*rows: dict[int, int]) -> Placements:
    """Jobs by node and number of GPUs there."""
    return Placements(
        np.cumsum([0, *map(len, rows)]),
        indices(*(node for job in rows for node in job)),
        indices(*((1 << gpus) - 1 for job in rows for gpus in job.values())),
    )


def exposed(model: int, gpus_by_rack: list[list[int]], speed: NetworkSpeed | None = None) -> float:
    speed = speed or NetworkSpeed(MODELS, CLUSTER)
    placements = place(gpus_by_rack, CLUSTER)
    assert placements is not None
    return float(speed.exposed_seconds(indices(model), shapes_of(placements, speed.tree))[0])


def test_a_saturated_network_takes_the_time_of_the_bytes_alone() -> None:
    """Two machines of one GPU: a ring of two over 2 GB/s moves 1 GB in half a second, behind 0.03 s of forward."""
    latency = 10 * 2 * 1e-6
    assert exposed(0, [[1, 1]]) == pytest.approx(0.03 + 1.0 / NIC + latency - 0.1)


def test_the_measured_form_by_hand() -> None:
    """Cards of 2 GB/s where 4 were measured: across machines twice the seconds, within one the same."""
    assert exposed(2, [[1]]) == 0.0
    assert exposed(2, [[4]]) == pytest.approx(np.hypot(0.5, 0.1 + 2 * 0.01) - 0.5)
    assert exposed(2, [[2, 2]]) == pytest.approx(np.hypot(0.5, 2 * (0.4 + 2 * 0.02)) - 0.5)
    congested = NetworkSpeed(MODELS, CLUSTER, congestion=0.5)
    assert exposed(2, [[2, 2]], congested) == pytest.approx(np.hypot(0.5, 4 * (0.4 + 2 * 0.02)) - 0.5)


def test_a_model_without_layers_never_communicates() -> None:
    speed = NetworkSpeed(MODELS, CLUSTER)
    assert exposed(3, [[1, 1], [1]], speed) == 0.0
    placements = jobs({0: 1, 1: 1})
    assert speed.efficiency(indices(3), shapes_of(placements, speed.tree)).tolist() == [1.0]
    assert speed.contended_efficiency(indices(3), placements).tolist() == [1.0]


def test_what_is_cached_is_what_is_computed() -> None:
    warm, generator = NetworkSpeed(MODELS, CLUSTER), np.random.default_rng(7)
    models = generator.integers(0, 4, 300)
    rows = [
        {
            int(node): int(generator.integers(1, 5))
            for node in generator.permutation(8)[: generator.integers(1, 6)]
        }
        for _ in models
    ]
    shapes = shapes_of(jobs(*rows), warm.tree)
    for half in (slice(0, 150), slice(100, 300)):
        warm.stages(models[half], shapes[half])
    one_by_one = [
        NetworkSpeed(MODELS, CLUSTER).stages(models[[i]], shapes[[i]])[0] for i in range(0, 300, 10)
    ]
    assert warm.stages(models, shapes)[::10].tolist() == [stage.item() for stage in one_by_one]


@st.composite
def running(draw: st.DrawFn) -> tuple[list[int], list[dict[int, int]]]:
    """Jobs side by side: the GPUs of a machine are held by one job at most."""
    owners = draw(st.lists(st.integers(0, 3), min_size=8, max_size=8))
    gpus = draw(st.lists(st.integers(1, 4), min_size=8, max_size=8))
    rows = [{n: gpus[n] for n in range(8) if owners[n] == owner} for owner in sorted(set(owners))]
    return draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))), rows


@settings(deadline=None)
@given(running())
def test_alone_no_gang_is_slower_than_without_contention(
    case: tuple[list[int], list[dict[int, int]]],
) -> None:
    speed = NetworkSpeed(MODELS, CLUSTER)
    for model, row in zip(*case, strict=True):
        placements = jobs(row)
        alone = speed.exposed_seconds(indices(model), shapes_of(placements, speed.tree))
        assert speed.contended_seconds(indices(model), placements) == pytest.approx(alone, abs=1e-12)


@settings(deadline=None)
@given(running())
def test_neighbours_never_help_and_uplinks_are_not_overfull(
    case: tuple[list[int], list[dict[int, int]]],
) -> None:
    speed = NetworkSpeed(MODELS, CLUSTER)
    models, rows = indices(*case[0]), case[1]
    placements = jobs(*rows)
    stages = speed.stages(models, shapes_of(placements, speed.tree))
    contended = speed.contended_seconds(models, placements)
    compute = speed.compute_seconds[models]
    slower = (compute + stages["exposed_seconds"] + 1e-30) / (compute + contended + 1e-30)
    assert speed.share_beside_others(models, placements) == pytest.approx(slower)
    assert (contended >= stages["exposed_seconds"] - 1e-12).all()
    seconds = np.maximum(speed.compute_seconds[models] + contended, 1e-30)
    over_racks = [len({node // 4 for node in row}) > 1 for row in rows]
    for rack in (0, 1):
        crossing = [
            over and any(node // 4 == rack for node in row)
            for over, row in zip(over_racks, rows, strict=True)
        ]
        # A job across two racks sends as much as its gradient over each rack's uplink, or more.
        least = (stages["volume_gb"] / seconds)[np.array(crossing)].sum()
        assert least <= speed.tree.uplink_gb_per_s[8 + rack] * (1 + 1e-9)


def test_a_full_rack_uplink_is_shared_alike() -> None:
    """Four jobs of one machine in each rack, 2 GB/s each over uplinks of 4: each gets a half of its demand."""
    speed = NetworkSpeed([HEAVY], CLUSTER)
    placements = jobs(*({i: 1, 4 + i: 1} for i in range(4)))
    models = indices(0, 0, 0, 0)
    stages = speed.stages(models, shapes_of(placements, speed.tree))
    iteration = 0.1 + stages["exposed_seconds"]
    demand = stages["volume_gb"] / iteration
    assert (demand > 1.0).all()
    contended = 0.1 + speed.contended_seconds(models, placements)
    assert contended == pytest.approx(iteration * demand / 1.0, rel=1e-3)


def test_gangs_in_two_racks_each_do_not_slow_each_other() -> None:
    """Two machines of a gang send at most 4 GB/s over their rack's uplink, which has 8 GB/s."""
    wide = replace(CLUSTER, links=replace(CLUSTER.links, cluster=Link(10.0, 5e-6)))
    speed = NetworkSpeed([HEAVY], wide)
    placements = jobs({0: 1, 1: 1, 4: 1, 5: 1}, {2: 1, 3: 1, 6: 1, 7: 1})
    models, shapes = indices(0, 0), shapes_of(placements, speed.tree)
    alone = speed.exposed_seconds(models, shapes)
    assert speed.contended_seconds(models, placements).tolist() == alone.tolist()
    third = replace(CLUSTER, links=replace(CLUSTER.links, cluster=Link(10.0, 5e-6, 8 / 3)))
    narrow = NetworkSpeed([HEAVY], third)
    alone = narrow.exposed_seconds(models, shapes_of(placements, narrow.tree))
    assert (narrow.contended_seconds(models, placements) > alone).all()


def test_a_neighbour_that_leaves_gives_its_share_back() -> None:
    speed = NetworkSpeed([HEAVY, LIGHT], CLUSTER)
    five = [{i: 1, 4 + i: 1} for i in range(4)]
    crowded = speed.contended_seconds(indices(0, 0, 0, 0), jobs(*five))
    fewer = speed.contended_seconds(indices(0, 0, 0), jobs(*five[:3]))
    modest = speed.contended_seconds(indices(0, 0, 0, 1), jobs(*five))
    assert (fewer < crowded[:3]).all()
    assert (modest[:3] < crowded[:3]).all()


def test_congestion_is_never_faster() -> None:
    seconds = [
        exposed(0, [[2, 2]], NetworkSpeed(MODELS, CLUSTER, congestion=f)) for f in (0.0, 0.3, 0.6, 0.9)
    ]
    assert seconds == sorted(seconds)
    assert seconds[0] < seconds[-1]
    inside = [exposed(0, [[4]], NetworkSpeed(MODELS, CLUSTER, congestion=f)) for f in (0.0, 0.9)]
    assert inside[0] == inside[1]


def test_packed_is_never_slower_than_spread_evenly() -> None:
    for model in (0, 1, 2):
        assert exposed(model, [[4]]) <= exposed(model, [[2, 2]]) <= exposed(model, [[2], [2]])
