"""Shapes and uplinks against a plain count over sets; dimensions against hand-worked placements."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Link, Links, Node
from muster.problems import InputError
from muster.speed.network.dimensions import ASTRA, PHYSICAL, dimensions
from muster.speed.network.placement import (
    Placements,
    loads_of,
    place,
    shapes_of,
    uplinks_of,
)
from muster.speed.network.placement_core import EVEN_ISLANDS, EVEN_MACHINES, EVEN_RACKS
from muster.speed.network.tree import link_tree


def cluster_of(
    racks: int,
    machines: int,
    gpus: int,
    island: int,
    links: Links | None = None,
    nics: tuple[float, ...] = (100.0,),
) -> Cluster:
    nodes = tuple(
        Node(f"n{i}", "t", i // machines, gpus, "V100", island, 24.0, 500.0, 0.5, nics[i % len(nics)])
        for i in range(racks * machines)
    )
    return Cluster("small", nodes, tuple(f"r{r}" for r in range(racks)), links or Links())


SMALL = cluster_of(3, 3, 8, 4, Links(cluster=Link(30.0, 5e-5, 4.0)), nics=(10.0, 25.0, 100.0, 50.0))


@st.composite
def batches(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """A few jobs, each some machines of SMALL with the bits of its GPUs there."""
    job = st.dictionaries(st.integers(0, 8), st.integers(1, 255), min_size=1, max_size=6)
    return [list(rows.items()) for rows in draw(st.lists(job, min_size=1, max_size=5))]


def as_placements(jobs: list[list[tuple[int, int]]]) -> Placements:
    rows = [row for job in jobs for row in job]
    return Placements(
        np.cumsum([0, *map(len, jobs)]),
        np.array([node for node, _ in rows], dtype=np.int64),
        np.array([bits for _, bits in rows], dtype=np.int64),
    )


@settings(deadline=None)
@given(batches())
def test_shapes_count_what_sets_count(jobs: list[list[tuple[int, int]]]) -> None:
    tree = link_tree(SMALL)
    for job, shape in zip(jobs, shapes_of(as_placements(jobs), tree), strict=True):
        gpus = [(node // 3, node, gpu // 4, gpu) for node, bits in job for gpu in range(8) if bits >> gpu & 1]
        by_island = Counter((node, island) for _, node, island, _ in gpus)
        by_machine = Counter(node for _, node, _, _ in gpus)
        by_rack = Counter(rack for rack, _, _, _ in gpus)
        machines_by_rack = Counter(node // 3 for node, _ in job)
        assert shape["gpus"] == len(gpus)
        assert shape["islands"] == len(by_island)
        assert shape["machines"] == len(by_machine)
        assert shape["racks"] == len(by_rack)
        one = [
            len(set(counts.values())) == 1 for counts in (by_island, by_machine, by_rack, machines_by_rack)
        ]
        even = EVEN_ISLANDS * one[0] + EVEN_MACHINES * one[1] + EVEN_RACKS * (one[2] and one[3])
        assert shape["even"] == even
        nics = [SMALL.nodes[node].nic_gb_per_s for node, _ in job]
        assert shape["machine_gb_per_s"] == (min(nics) if len(job) > 1 else np.inf)
        uplinks = [sum(SMALL.nodes[3 * rack + i].nic_gb_per_s for i in range(3)) / 4.0 for rack in by_rack]
        assert shape["rack_gb_per_s"] == (min(uplinks) if len(by_rack) > 1 else np.inf)


@settings(deadline=None)
@given(batches())
def test_a_job_crosses_the_uplinks_of_what_it_spans(jobs: list[list[tuple[int, int]]]) -> None:
    first, links = uplinks_of(as_placements(jobs), link_tree(SMALL))
    for number, job in enumerate(jobs):
        nodes = {node for node, _ in job}
        racks = {9 + node // 3 for node in nodes}
        expected = (nodes if len(nodes) > 1 else set()) | (racks if len(racks) > 1 else set())
        crossed = links[first[number] : first[number + 1]].tolist()
        assert sorted(crossed) == sorted(expected)


def sent_bytes(job: list[tuple[int, int]]) -> dict[int, float]:
    """Bytes that leave each machine and rack in a ring all-reduce of one byte, send by send."""
    gpus = sorted((node // 3, node, gpu) for node, bits in job for gpu in range(8) if bits >> gpu & 1)
    by_rack = [[gpu for gpu in gpus if gpu[0] == rack] for rack in sorted({gpu[0] for gpu in gpus})]
    by_node = {node: [gpu for gpu in gpus if gpu[1] == node] for node, _ in job}
    machines_of_rack = [len({gpu[1] for gpu in rack}) for rack in by_rack]
    out: dict[int, float] = {}

    def ring(members: list[tuple[int, int, int]], share: float) -> None:
        size = len(members)
        for at, (rack, node, _) in enumerate(members if size > 1 else []):
            to_rack, to_node, _ = members[(at + 1) % size]
            sent = 2 * (size - 1) * share / size
            if node != to_node:
                out[node] = out.get(node, 0.0) + sent
            if rack != to_rack:
                out[9 + rack] = out.get(9 + rack, 0.0) + sent

    if len(set(map(len, by_rack))) > 1 or len(set(machines_of_rack)) > 1:
        ring(gpus, 1.0)
        return out
    in_rack = len(by_rack[0])
    for of_rack in by_rack:
        nodes = sorted({gpu[1] for gpu in of_rack})
        each = len(by_node[nodes[0]])
        if len(set(map(len, by_node.values()))) == 1:
            for rank in range(each):
                ring([by_node[node][rank] for node in nodes], 1.0 / each)
        else:
            ring(of_rack, 1.0)
    for rank in range(in_rack):
        ring([of_rack[rank] for of_rack in by_rack], 1.0 / in_rack)
    return out


@settings(max_examples=200, deadline=None)
@given(batches())
def test_uplinks_carry_what_the_rings_send(jobs: list[list[tuple[int, int]]]) -> None:
    tree, placements = link_tree(SMALL), as_placements(jobs)
    first, links = uplinks_of(placements, tree)
    loads = loads_of(placements, shapes_of(placements, tree), tree)
    for number, job in enumerate(jobs):
        crossed = slice(first[number], first[number + 1])
        found = dict(zip(links[crossed].tolist(), loads[crossed].tolist(), strict=True))
        assert found == pytest.approx(sent_bytes(job))


@pytest.mark.parametrize(
    ("job", "machine", "rack"),
    [
        # 2 racks x 2 machines: in the rack 1, and half of the gradient between racks; 1 over a rack's uplink.
        ([(0, 1), (1, 1), (3, 1), (4, 1)], 1.5, 1.0),
        ([(0, 255), (1, 255), (3, 255), (4, 255)], 1.5, 1.0),
        # One machine in each of three racks: 2 (3 - 1) / 3 over every link.
        ([(0, 3), (3, 3), (6, 3)], 4 / 3, 4 / 3),
        # Two machines of one rack, and one of another: a flat ring of three.
        ([(0, 1), (1, 1), (3, 1)], 4 / 3, 4 / 3),
        ([(0, 15), (1, 15)], 1.0, None),
    ],
)
def test_loads_of_small_gangs_by_hand(job: list[tuple[int, int]], machine: float, rack: float | None) -> None:
    tree, placements = link_tree(SMALL), as_placements([job])
    _, links = uplinks_of(placements, tree)
    loads = loads_of(placements, shapes_of(placements, tree), tree)
    for link, load in zip(links.tolist(), loads.tolist(), strict=True):
        assert load == pytest.approx(machine if link < 9 else rack)


def dims(gpus_by_rack: list[list[int]], flavour: int, cluster: Cluster) -> tuple[list[int], list[float]]:
    """Size of every dimension, and its GB/s a GPU."""
    tree = link_tree(cluster)
    placements = place(gpus_by_rack, cluster)
    assert placements is not None
    shape = shapes_of(placements, tree)[0]
    sizes, _, rates = dimensions(flavour, shape, tree.level_gb_per_s, tree.hop_seconds)
    return sizes.tolist(), rates.tolist()


DALLY = cluster_of(2, 8, 8, 4, nics=(200.0,))


@pytest.mark.parametrize(
    ("gpus_by_rack", "expected"),
    [
        ([[1]], []),
        ([[4]], [(4, 600.0)]),
        ([[8]], [(4, 600.0), (2, 600.0 / 4)]),  # an island's 4 GPUs share its link
        ([[4, 4]], [(4, 600.0), (2, 200.0 / 4)]),
        ([[8, 8]], [(4, 600.0), (2, 150.0), (2, 200.0 / 8)]),
        ([[3, 1]], [(4, 200.0)]),  # uneven: one flat ring that crosses each uplink once
        ([[5, 5]], [(5, 600.0), (2, 200.0 / 5)]),  # islands uneven (4 and 1): a ring inside each machine
        ([[1], [1]], [(2, 200.0)]),  # the machine's uplink is narrower than the 400 between racks
        ([[4, 4], [4, 4]], [(4, 600.0), (2, 50.0), (2, 2 * 200.0 / 8)]),  # two uplinks, eight GPUs
        ([[4, 2], [2]], [(8, 200.0)]),
        ([[2, 2], [4]], [(8, 200.0)]),  # as many GPUs in each rack, but not as many machines
    ],
)
def test_physical_dimensions_by_hand(
    gpus_by_rack: list[list[int]], expected: list[tuple[int, float]]
) -> None:
    sizes, rates = dims(gpus_by_rack, PHYSICAL, DALLY)
    assert sizes == [size for size, _ in expected]
    assert rates == pytest.approx([rate for _, rate in expected])


GIB = 1.073741824


@pytest.mark.parametrize(
    ("gpus_by_rack", "expected"),
    [
        ([[2]], [(2, 2 * 600 * GIB)]),
        ([[8]], [(4, 600 * GIB), (2, 4 * 600 * GIB)]),
        ([[4, 4]], [(2, 2 * 600 * GIB), (2, 4 * 600 * GIB), (2, 4 * 200 * GIB)]),
        ([[1] * 8], [(8, 8 * 200 * GIB)]),
        ([[1] * 5], [(5, 6 * 200 * GIB)]),
        ([[1], [1]], [(2, 2 * 400 * GIB)]),
        ([[2, 1], [2]], [(5, 5 * 400 * GIB)]),
    ],
)
def test_astra_dimensions_as_published(
    gpus_by_rack: list[list[int]], expected: list[tuple[int, float]]
) -> None:
    sizes, rates = dims(gpus_by_rack, ASTRA, DALLY)
    assert sizes == [size for size, _ in expected]
    assert rates == pytest.approx([rate for _, rate in expected])


def test_oversubscribed_racks_share_what_is_left_between_racks() -> None:
    """8 machines of 200 GB/s over an uplink of a quarter of that: two full racks get 400, not 1600."""
    narrow = cluster_of(2, 8, 8, 4, Links(cluster=Link(200.0, 5e-5, 4.0)), nics=(200.0,))
    sizes, rates = dims([[8] * 8, [8] * 8], PHYSICAL, narrow)
    assert sizes[-1] == 2
    assert rates[-1] == pytest.approx(400.0 / 64)


def test_place_packs_and_says_when_there_is_no_room() -> None:
    assert place([[9]], DALLY) is None
    assert place([[1] * 9], DALLY) is None
    assert place([[1], [1], [1]], DALLY) is None
    mixed = Cluster(
        "mixed",
        tuple(
            Node(f"n{i}", "t", r, g, "V100", g, 8.0, 99.0, 0.5, 10.0)
            for i, (r, g) in enumerate([(0, 8), (0, 2), (1, 2)])
        ),
        ("a", "b"),
        Links(),
    )
    placed = place([[1], [8]], mixed)
    assert placed is not None
    assert placed.nodes.tolist() == [0, 2]


def test_congestion_takes_its_part_of_every_uplink() -> None:
    free, half = link_tree(SMALL), link_tree(SMALL, 0.5)
    assert half.uplink_gb_per_s == pytest.approx(free.uplink_gb_per_s / 2)
    assert half.level_gb_per_s == pytest.approx(free.level_gb_per_s * [1, 1, 0.5, 0.5])


def test_links_that_carry_nothing_are_refused_all_at_once() -> None:
    links = Links(island=Link(0.0, 0.0), rack=Link(10.0, -1.0), cluster=Link(10.0, 0.0, 0.0))
    with pytest.raises(InputError) as refused:
        link_tree(cluster_of(1, 2, 8, 4, links, nics=(0.0, 10.0)), 1.0)
    columns = [problem.column for problem in refused.value.problems]
    assert columns == [
        None,
        "links.island.gb_per_s",
        "links.rack.latency_seconds",
        "links.cluster.oversubscription",
        "nic_gb_per_s",
    ]
