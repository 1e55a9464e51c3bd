"""The cluster of a Slurm site, from texts made by hand in the forms that Slurm prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.cluster.cluster_file import write_cluster_file
from muster.cluster.shipped import parse_cluster
from muster.cluster.slurm_nodes import expand_hosts, read_fields, read_slurm_site
from muster.problems import InputError

NODE = """\
NodeName={name} Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUEfctv=126 CPUTot=128 CPULoad=0.50
   AvailableFeatures=ib,nvlink
   ActiveFeatures=ib
   Gres={gres}
   NodeAddr={name} NodeHostName={name} Version=22.05.8
   OS=Linux 6.1.0 #1 SMP Debian
   RealMemory=1000000 AllocMem=0 FreeMem=21295 Sockets=2 Boards=1
   State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=train,debug
   CfgTRES=cpu=128,mem=1000000M,billing=128

"""
TOPOLOGY = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[03-04]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[01-02]
SwitchName=top Level=1 LinkSpeed=1 Nodes=n[01-04] Switches=leaf[1-2]
"""


def described(gres: str = "gpu:a100:8(S:0-1)", state: str = "IDLE") -> str:
    return "".join(NODE.format(name=f"n0{at}", gres=gres, state=state) for at in range(1, 5))


def test_nodes_keep_names_types_and_amounts() -> None:
    site = read_slurm_site(described(), "nodes.txt", "site")
    assert [node.name for node in site.cluster.nodes] == ["n01", "n02", "n03", "n04"]
    node = site.cluster.nodes[0]
    assert (node.gpus, node.gpu_type, node.cpus) == (8, "a100", 126)
    assert node.memory_gb == pytest.approx(1_000_000 * 1024**2 / 1e9)
    assert node.labels == ("ib", "nvlink", "partition:train", "partition:debug")


def test_one_line_for_each_node_reads_the_same() -> None:
    lines = "\n".join(" ".join(block.split()) for block in described().split("\n\n"))
    both = [read_slurm_site(text, "nodes.txt", "site") for text in (described(), lines)]
    assert both[0] == both[1]


def test_lowest_switches_are_racks_in_their_order() -> None:
    cluster = read_slurm_site(described() + TOPOLOGY, "nodes.txt", "site").cluster
    assert cluster.racks == ("leaf1", "leaf2")
    assert [node.name for node in cluster.nodes] == ["n03", "n04", "n01", "n02"]


def test_blocks_are_racks_and_the_rest_has_its_own() -> None:
    text = described() + "BlockName=b1 BlockIndex=0 Nodes=n[01-03] BlockSize=3\n"
    cluster = read_slurm_site(text, "nodes.txt", "site").cluster
    assert [cluster.racks[node.rack] for node in cluster.nodes] == ["b1", "b1", "b1", "rack-0"]


def test_settings_printed_before_the_nodes_are_passed_over() -> None:
    config = "Configuration data as of 2026-11-22T22:41:17\nNodeFeaturesPlugins = (null)\n\n"
    cluster = read_slurm_site(config + described(), "nodes.txt", "site").cluster
    assert len(cluster.nodes) == 4


def test_a_cluster_of_a_site_has_what_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "site.txt").write_text(
        "SchedulerParameters = bf_interval=9\n\n" + described("gpu:a100:2,shard:8")
    )
    cluster = parse_cluster(f"{tmp_path / 'site.txt'} + 1x8a100,64cpu,500gb")
    assert any("site.txt: 4 nodes with shared GPUs" in note for note in cluster.notes)
    assert any(
        "not its scheduling settings. Hint: muster calibrate --slurm-config" in note for note in cluster.notes
    )
    jobs = {"job_id": ["a"], "submit_seconds": [0], "gpus": [1], "duration_seconds": [60.0]}
    assert set(cluster.notes) <= set(muster.simulate(jobs, cluster, scheduler="fifo").summary["notes"])


def test_types_of_one_node_are_nodes_of_their_own() -> None:
    site = read_slurm_site(
        described("gpu:a100:2(S:0),gpu:t4:4,gpu:a100:2(S:1)") + TOPOLOGY, "nodes.txt", "site"
    )
    parts = site.cluster.nodes[:2]
    assert [(node.name, node.gpus, node.gpu_type) for node in parts] == [
        ("n03:a100", 4, "a100"),
        ("n03:t4", 4, "t4"),
    ]
    assert [node.cpus for node in parts] == [63, 63]
    assert {(site.cluster.racks[node.rack], node.labels[-1]) for node in parts} == {
        ("leaf1", "partition:debug")
    }
    assert site.cluster.total_gpus == 4 * 8
    note = next(
        note for note in site.notes if note.startswith("4 nodes with GPUs of several types, such as n01")
    )
    assert "each type is a node of its own, such as n01:a100" in note


def test_a_whole_node_keeps_its_name_and_its_most_frequent_type() -> None:
    """As an engine starts jobs, which names nodes to Slurm."""
    site = read_slurm_site(described("gpu:a100:2,gpu:t4:4"), "nodes.txt", "site", by_type=False)
    node = site.cluster.nodes[0]
    assert (node.name, node.gpus, node.gpu_type, node.cpus) == ("n01", 4, "t4", 126)
    assert not any("several types" in note for note in site.notes)


def test_mig_profiles_are_types_and_count_by_sevenths() -> None:
    site = read_slurm_site(described("gpu:a100:2,gpu:1g.10gb:14,shard:8"), "nodes.txt", "site")
    whole, parts = site.cluster.nodes[:2]
    assert (whole.gpu_type, whole.gpus, whole.cpus) == ("a100", 2, 63)
    assert (parts.gpu_type, parts.gpus, parts.cpus) == ("1g.10gb", 14, 63)
    assert whole.memory_gb + parts.memory_gb == pytest.approx(1_000_000 * 1024**2 / 1e9, abs=0.01)
    assert any("shared GPUs" in note for note in site.notes)


@given(
    st.dictionaries(
        st.sampled_from(["a100", "t4", "1g.5gb", "a100_3g.20gb"]), st.integers(1, 14), min_size=1
    ),
    st.integers(4, 256),
)
def test_parts_of_a_node_have_all_that_it_has(gpus: dict[str, int], cpus: int) -> None:
    gres = ",".join(f"gpu:{name}:{count}" for name, count in gpus.items())
    text = f"NodeName=n1 CPUTot={cpus} RealMemory=64000 Gres={gres} State=DOWN"
    site = read_slurm_site(text, "nodes.txt", "site")
    assert {node.gpu_type: node.gpus for node in site.cluster.nodes} == gpus
    assert all(node.cpus >= 1 for node in site.cluster.nodes)
    assert cpus <= site.cluster.total_cpus < cpus + len(gpus)
    assert site.cluster.total_memory_gb == pytest.approx(64000 * 1024**2 / 1e9, abs=0.01)
    assert site.away == {node.name for node in site.cluster.nodes}


def test_jobs_of_each_type_run_on_the_part_that_has_it(tmp_path: Path) -> None:
    (tmp_path / "site.txt").write_text(
        "NodeName=n1 CPUTot=48 RealMemory=500000 Gres=gpu:a100:2,gpu:t4:4 State=IDLE\n"
    )
    cluster = parse_cluster(str(tmp_path / "site.txt"))
    jobs = {
        "job_id": ["first", "second", "other"],
        "submit_seconds": [0, 0, 0],
        "gpus": [2, 2, 4],
        "duration_seconds": [60.0, 60.0, 60.0],
        "time_limit_seconds": [60.0, 60.0, 60.0],
        "constraint": ["gpu_type=a100", "gpu_type=a100", "gpu_type=t4"],
    }
    starts = muster.simulate(jobs, cluster, scheduler="slurm").jobs.select("job_id", "start_seconds")
    found = dict(starts.iter_rows())
    assert found["first"] < 60 <= found["second"]
    assert found["other"] < 60


def test_nodes_that_are_away_are_kept_and_counted() -> None:
    site = read_slurm_site(described(state="IDLE+DRAIN"), "nodes.txt", "site")
    assert len(site.cluster.nodes) == 4
    assert "4 nodes down or drained now, kept in the cluster" in site.notes


def test_the_file_reads_back_as_the_same_cluster(tmp_path: Path) -> None:
    cluster = read_slurm_site(described() + TOPOLOGY, "nodes.txt", "site").cluster
    write_cluster_file(cluster, tmp_path / "cluster.toml")
    assert parse_cluster(str(tmp_path / "cluster.toml")) == cluster


def test_json_of_both_forms_gives_the_same_nodes() -> None:
    old = [
        {"name": name, "cpus": 64, "real_memory": 500_000, "gres": "gpu:v100:8", "features": "ib",
         "partitions": ["train", "debug"], "state": "idle", "state_flags": []}
        for name in ("n1", "n2")
    ]  # fmt: skip
    new = [
        {"nodes": {"nodes": ["n1", "n2"]}, "cpus": {"minimum": 64}, "memory": {"minimum": 500_000},
         "gres": {"total": "gpu:v100:8"}, "features": {"total": "ib"}, "partition": {"name": partition},
         "node": {"state": ["IDLE"]}}
        for partition in ("train", "debug")
    ]  # fmt: skip
    texts = [json.dumps({"nodes": old}), json.dumps({"sinfo": new})]
    sites = [read_slurm_site(text, "sinfo.json", "site") for text in texts]
    assert sites[0] == sites[1]
    assert len(sites[0].cluster.nodes) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "nodes.txt: it describes no node"),
        ("partition:train up\n", "nodes.txt: it describes no node"),
        ('{"jobs": []}', "lacks or has another form of 'sinfo'"),
        ("{", "is not JSON"),
        ("NodeName=n1 CPUTot=many RealMemory=1", "node n1: CPUTot: found 'many'; allowed: a whole number"),
        ("NodeName=n1 CPUTot=4", "node n1: RealMemory: is missing"),
        ("NodeName=n1 CPUTot=4 RealMemory=1000", "has no node with a GPU"),
    ],
)
def test_what_is_no_list_of_nodes_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        read_slurm_site(text, "nodes.txt", "site")
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-2,7],login", ["n1", "n2", "n7", "login"]),
        ("x[08-10]", ["x08", "x09", "x10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("", []),
    ],
)
def test_host_lists_expand_as_slurm_writes_them(text: str, names: list[str]) -> None:
    assert expand_hosts(text) == names


@pytest.mark.parametrize(
    ("weights", "expected"), [((1, 1), None), ((1, 10), (1, 10)), ((10, 10), None), ((3, 2), (3, 2))]
)
def test_weights_are_labels_and_noted_where_they_differ(
    tmp_path: Path, weights: tuple[int, int], expected: tuple[int, int] | None
) -> None:
    lines = [
        f"NodeName=n{at} CPUTot=8 RealMemory=1000 Gres=gpu:4 State=IDLE Weight={weight}"
        for at, weight in enumerate(weights)
    ]
    entries = [
        {"nodes": {"nodes": [f"n{at}"]}, "cpus": {"minimum": 8}, "memory": {"minimum": 1000},
         "gres": {"total": "gpu:4"}, "features": {"total": ""}, "partition": {"name": ""},
         "weight": {"minimum": weight, "maximum": weight}, "node": {"state": ["IDLE"]}}
        for at, weight in enumerate(weights)
    ]  # fmt: skip
    for text in ("\n".join(lines), json.dumps({"sinfo": entries})):
        site = read_slurm_site(text, "site", "site")
        assert site.cluster.weights == expected
        assert [node.weight for node in site.cluster.nodes] == list(weights)
        assert any("weights of nodes" in note for note in site.notes) == (expected is not None)
        write_cluster_file(site.cluster, tmp_path / "cluster.toml")
        assert parse_cluster(str(tmp_path / "cluster.toml")).weights == expected


@pytest.mark.parametrize("name", ["node[1-8]", "n1,n2", "DEFAULT"])
def test_a_slurm_conf_is_refused_as_a_list_of_nodes(name: str) -> None:
    """Eight nodes would count as one of that name."""
    text = f"ClusterName=x\nNodeName={name} Gres=gpu:8 CPUs=48 RealMemory=500000\n"
    with pytest.raises(InputError, match=r"one node an entry\. Hint: a slurm\.conf does not do"):
        read_slurm_site(text, "slurm.conf", "site")


@pytest.mark.parametrize(
    "end",
    [
        "\n   Comment=ticket 7 said State=DOWN Gres=gpu:1\n   Reason=was State=DRAIN [root@2024-01-01T00:00:00]",
        " Comment=ticket 7 said State=DOWN Gres=gpu:1 Reason=was State=DRAIN [root@2024-01-01T00:00:00]",
    ],
)
def test_free_text_of_a_node_has_no_fields(end: str) -> None:
    """Neither where each line ends a field nor with --oneliner."""
    node = "NodeName=n1 CPUTot=8 Gres=gpu:4 RealMemory=1000 State=IDLE"
    site = read_slurm_site(node + end, "scontrol.txt", "site")
    assert (site.cluster.total_gpus, site.away) == (4, frozenset())
    fields = read_fields(node + end)
    assert fields["Comment"] == "ticket 7 said State=DOWN Gres=gpu:1"
    assert fields["Reason"] == "was State=DRAIN [root@2024-01-01T00:00:00]"


def test_a_line_after_free_text_counts() -> None:
    text = "NodeName=n1 CPUTot=8 RealMemory=1000\n   Comment=State=DOWN\n   Gres=gpu:4 State=IDLE"
    site = read_slurm_site(text, "scontrol.txt", "site")
    assert (site.cluster.total_gpus, site.away) == (4, frozenset())
