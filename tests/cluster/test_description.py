"""What a cluster knows of itself, and what no cluster may be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.cluster import Cluster, Links, Node
from muster.problems import InputError

MACHINE = Node("a", "v100", 0, 8, "V100", 4, 24.0, 500.0, 0.5, 1.25)
SERVER = Node("b", "cpu", 1, 0, "GPU", 1, 64.0, 256.0, 0.5, 1.25)


def test_totals_and_racks() -> None:
    cluster = Cluster("two", (MACHINE, replace(MACHINE, name="c", rack=1), SERVER), ("left", "right"))
    assert (cluster.total_gpus, cluster.total_cpus, cluster.total_memory_gb) == (16, 112.0, 1256.0)
    assert cluster.share_per_gpu.tolist() == [3.0, 62.5, 0.0625]
    assert cluster.most_gpus_per_node == 8
    assert cluster.gpu_types == ("V100",)
    assert cluster.nodes_by_rack == ((0,), (1, 2))
    assert cluster.node_index["c"] == 1


def test_the_record_names_racks_and_types() -> None:
    cluster = Cluster("one", (MACHINE,), ("left",))
    assert cluster.to_dict() == {
        "name": "one",
        "nodes": [
            {
                "name": "a",
                "type": "v100",
                "rack": "left",
                "gpus": 8,
                "gpu_type": "V100",
                "gpus_per_island": 4,
                "cpus": 24.0,
                "memory_gb": 500.0,
                "storage_gb_per_s": 0.5,
                "nic_gb_per_s": 1.25,
                "labels": [],
            }
        ],
        "links": {
            "island": {"gb_per_s": 600.0, "latency_seconds": 0.0, "oversubscription": 1.0},
            "node": {"gb_per_s": 600.0, "latency_seconds": 500e-9, "oversubscription": 1.0},
            "rack": {"gb_per_s": 200.0, "latency_seconds": 5e-6, "oversubscription": 1.0},
            "cluster": {"gb_per_s": 400.0, "latency_seconds": 50e-6, "oversubscription": 1.0},
        },
    }


def test_links_default_to_dallys_constants() -> None:
    levels = Links()
    speeds = [link.gb_per_s for link in (levels.island, levels.node, levels.rack, levels.cluster)]
    assert speeds == [600, 600, 200, 400]
    assert levels.cluster.latency_seconds == 50e-6


@pytest.mark.parametrize(
    ("nodes", "racks", "said"),
    [
        ((), (), "no node with a GPU"),
        ((replace(SERVER, rack=0),), ("r",), "no node with a GPU"),
        ((MACHINE, MACHINE), ("r",), "2 nodes have this name"),
        ((replace(MACHINE, gpus=61),), ("r",), "from 0 to 60"),
        ((replace(MACHINE, gpus_per_island=9),), ("r",), "from 1 to its 8 GPUs"),
        ((replace(MACHINE, rack=1),), ("r",), "the cluster has 1 racks"),
        ((MACHINE,), ("r", "empty"), "this rack has no machine"),
    ],
)
def test_an_unusable_cluster_is_refused(nodes: tuple[Node, ...], racks: tuple[str, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Cluster("wrong", nodes, racks)


def test_all_problems_are_raised_together() -> None:
    with pytest.raises(InputError) as refused:
        Cluster("wrong", (replace(MACHINE, gpus=99, rack=3), replace(MACHINE, gpus_per_island=0)), ("r",))
    assert len(refused.value.problems) == 4


def test_links_and_network_cards_come_from_another_description() -> None:
    ours = Cluster("ours", (MACHINE, replace(MACHINE, name="c", rack=1)), ("left", "right"))
    links = replace(Links(), rack=replace(Links().rack, gb_per_s=2.5))
    others = Cluster("others", (replace(MACHINE, cpus=1.0, nic_gb_per_s=5.0),), ("r",), links)
    linked = ours.linked_as(others)
    assert linked.links == links
    assert linked.racks == ours.racks
    assert linked.nodes == (replace(MACHINE, nic_gb_per_s=5.0), replace(ours.nodes[1], nic_gb_per_s=2.5))
