"""A cluster from what a user types."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from muster.cluster import Cluster, Links
from muster.cluster.cluster_file import write_cluster_file
from muster.cluster.more_nodes import joined
from muster.cluster.shipped import parse_cluster, shipped_names
from muster.problems import InputError


def test_every_shipped_cluster_is_usable_and_can_be_written(tmp_path: Path) -> None:
    assert set(shipped_names()) == {"synergy-4", "synergy-16", "synergy-64", "dally-2x8x8", "philly", "smd"}
    for name in shipped_names():
        cluster = parse_cluster(name)
        assert cluster.name == name
        write_cluster_file(cluster, tmp_path / f"{name}.toml")
        assert parse_cluster(str(tmp_path / f"{name}.toml")) == cluster


@pytest.mark.parametrize("machines", [4, 16, 64])
def test_synergys_servers(machines: int) -> None:
    cluster = parse_cluster(f"synergy-{machines}")
    assert len(cluster.nodes) == machines
    for node in cluster.nodes:
        assert (node.gpus, node.gpu_type, node.cpus, node.memory_gb) == (8, "V100", 24.0, 500.0)
        assert node.storage_gb_per_s == 0.5


def test_dallys_tree() -> None:
    cluster = parse_cluster("dally-2x8x8")
    assert [len(nodes) for nodes in cluster.nodes_by_rack] == [8, 8]
    assert {(node.gpus, node.gpus_per_island) for node in cluster.nodes} == {(8, 4)}
    assert cluster.links == Links()


def test_smd_has_machines_for_parameter_servers() -> None:
    cluster = parse_cluster("smd")
    assert Counter(node.gpus for node in cluster.nodes) == {8: 16, 0: 8}
    assert {node.nic_gb_per_s for node in cluster.nodes} == {1.25}


def test_philly_is_the_published_machines_that_have_4_or_8_gpus(reference: Path) -> None:
    with (reference / "data/clusters/philly_machines.csv").open(newline="") as file:
        sizes = Counter(int(row["number of GPUs"]) for row in csv.DictReader(file))
    cluster = parse_cluster("philly")
    assert Counter(node.gpus for node in cluster.nodes) == {8: sizes[8], 4: sizes[4]}
    assert 2500 <= cluster.total_gpus <= 3200


def kinds(cluster: Cluster) -> Counter[tuple[int, str, float, float, float]]:
    return Counter(
        (node.gpus, node.gpu_type, node.cpus, node.memory_gb, node.storage_gb_per_s) for node in cluster.nodes
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("16x8gpu,24cpu,500gb", {(8, "GPU", 24, 500, 0.5): 16}),
        ("16x8v100", {(8, "V100", 24, 500, 0.5): 16}),
        ("2x4gpu", {(4, "GPU", 12, 250, 0.25): 2}),
        ("1x8gpu, 32cpus, 64GiB, 2GB/s", {(8, "GPU", 32, 64 * 2**30 / 1e9, 2): 1}),
        ("4x8gpu+2x4a100", {(8, "GPU", 24, 500, 0.5): 4, (4, "A100", 12, 250, 0.25): 2}),
        ("4x8gpu,32cpu+2x4a100,64cpu", {(8, "GPU", 32, 500, 0.5): 4, (4, "A100", 64, 250, 0.25): 2}),
        ("60x60gpu,10Gbps", {(60, "GPU", 180, 3750, 1.25): 60}),
    ],
)
def test_one_line(line: str, expected: dict[tuple[int, str, float, float, float], int]) -> None:
    cluster = parse_cluster(line)
    assert kinds(cluster) == expected
    assert cluster.name == line
    assert [node.name for node in cluster.nodes] == [f"node-{at}" for at in range(len(cluster.nodes))]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("synergy-17", "did you mean synergy-1"),
        ("phily", "did you mean philly"),
        ("", "a line such as 16x8gpu"),
        ("4x8", "a line such as 16x8gpu"),
        ("0x8gpu", "1 to 100000 machines"),
        ("999999x8gpu", "1 to 100000 machines"),
        ("4x0gpu", "1 to 60 GPUs"),
        ("4x61gpu", "1 to 60 GPUs"),
        ("4x8gpu,24", "found '24'"),
        ("4x8gpu,0cpu", "found '0cpu'"),
        ("4x8gpu,24cpu,32cpu", "cpus is given twice"),
        ("4x8gpu+", "found ''"),
        ("4x8gpu+x4gpu", "found 'x4gpu'"),
        ("absent.toml", "no such file"),
        ("some/folder", "no such file"),
        (".", "this is a directory"),
    ],
)
def test_a_wrong_cluster_is_refused_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_cluster(text)


SITE = """\
NodeName=a1 CPUTot=48 RealMemory=500000 Gres=gpu:8 State=IDLE Partitions=train,debug
NodeName=a2 CPUTot=48 RealMemory=500000 Gres=gpu:8 State=IDLE Partitions=train
"""


def test_nodes_added_to_a_site_are_in_each_of_its_partitions(tmp_path: Path) -> None:
    (tmp_path / "scontrol.txt").write_text(SITE)
    cluster = parse_cluster(f"{tmp_path / 'scontrol.txt'} + 2x8h100,96cpu,1tb")
    assert [node.labels for node in cluster.nodes[2:]] == [("partition:train", "partition:debug")] * 2
    said = (
        "the added nodes are in each partition: train, debug. Hint: 'in PARTITION' behind the nodes names one"
    )
    assert said in cluster.notes[-1]


@pytest.mark.parametrize("partition", ["train", "debug"])
def test_added_nodes_may_be_in_one_partition(tmp_path: Path, partition: str) -> None:
    (tmp_path / "scontrol.txt").write_text(SITE)
    site = parse_cluster(str(tmp_path / "scontrol.txt"))
    cluster = parse_cluster(
        f"{tmp_path / 'scontrol.txt'} + 1x8h100,96cpu,1tb+1x8v100,9cpu,1tb in {partition}"
    )
    assert [node.labels for node in cluster.nodes[2:]] == [(f"partition:{partition}",)] * 2
    assert cluster.notes == site.notes


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ("1x8h100,96cpu,1tb in traim", "--cluster: found 'traim'; in PARTITION: allowed: train, debug"),
        ("1x8h100,96cpu,1tb in", "found '1tb in'; allowed: more than 0 and written such as 24cpu"),
        ("in train", "found 'in train'; allowed behind a cluster and"),
        ("1x8h100 in train debug", "allowed: machines x GPUs"),
    ],
)
def test_a_wrong_partition_of_added_nodes_is_refused(tmp_path: Path, added: str, said: str) -> None:
    (tmp_path / "scontrol.txt").write_text(SITE)
    with pytest.raises(InputError, match=said):
        parse_cluster(f"{tmp_path / 'scontrol.txt'} + {added}")


def test_a_cluster_without_partitions_has_none_to_name() -> None:
    with pytest.raises(InputError, match="found 'train'; in PARTITION: cluster philly has no partition"):
        parse_cluster("philly + 1x8h100 in train")


def test_added_nodes_with_partitions_of_their_own_keep_these(tmp_path: Path) -> None:
    (tmp_path / "scontrol.txt").write_text(SITE)
    site = parse_cluster(str(tmp_path / "scontrol.txt"))
    both = joined(site, site, "twice")
    assert [node.labels for node in both.nodes] == [node.labels for node in (*site.nodes, *site.nodes)]
    assert both.notes == site.notes
