"""The cluster file: what it means, what a wrong one is refused with, and that it survives being written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster, Link, Links, Node
from muster.cluster.cluster_file import cluster_from_toml, write_cluster_file
from muster.cluster.shipped import parse_cluster
from muster.problems import InputError

WHOLE = """\
name = "lab"
machines_per_rack = 2

[types.big]
gpus = 8
gpu_type = "A100"
gpus_per_island = 4
cpus = 96
memory_gb = "1TiB"
storage_gb_per_s = "20Gbit/s"
nic_gb_per_s = "100Gbit/s"
labels = ["nvlink"]

[types.small]
gpus = 2

[[nodes]]
type = "big"
count = 3

[[nodes]]
type = "small"
names = ["left", "right"]
rack = "corner"

[links.rack]
gb_per_s = "100Gbit/s"
oversubscription = 3
"""


def test_a_whole_file() -> None:
    cluster = cluster_from_toml(WHOLE, "lab.toml", "unused")
    assert cluster.name == "lab"
    assert [node.name for node in cluster.nodes] == ["node-0", "node-1", "node-2", "left", "right"]
    assert [cluster.racks[node.rack] for node in cluster.nodes] == ["rack-0"] * 2 + ["rack-1"] + [
        "corner"
    ] * 2
    assert cluster.nodes[0] == Node(
        "node-0", "big", 0, 8, "A100", 4, 96.0, 1024 * 2**30 / 1e9, 2.5, 12.5, ("nvlink",)
    )
    # What the type leaves out: Synergy's share of a GPU, one island, and the rack's speed.
    assert cluster.nodes[3] == Node("left", "small", 2, 2, "GPU", 2, 6.0, 125.0, 0.125, 12.5)
    assert cluster.links == Links(rack=Link(12.5, 5e-6, 3.0))


def test_the_example_of_the_docs_is_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "clusters.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    cluster = cluster_from_toml(example, "docs/reference/clusters.md", "example")
    assert cluster.total_gpus == 128
    assert cluster.racks == ("rack-0", "rack-1", "corner")
    assert cluster.links.rack == Link(12.5, 5e-6, 3.0)


def test_every_problem_has_its_line_and_words() -> None:
    wrong = """\
machines_per_rack = 0
[types.a]
gpus = 8.5
gpu_tpye = "x"
cpus = "many"
memory_gb = "10 apples"
[[nodes]]
type = "a"
count = -1
[[nodes]]
count = "3"
[links.rack]
gb_per_s = 0
latency_seconds = -3
[links.foo]
[[node]]
"""
    with pytest.raises(InputError) as refused:
        cluster_from_toml(wrong, "lab.toml", "lab")
    reply = {(problem.row, problem.column): str(problem) for problem in refused.value.problems}
    assert list(reply) == [
        (1, "machines_per_rack"),
        (3, "types.a.gpus"),
        (5, "types.a.cpus"),
        (6, "types.a.memory_gb"),
        (4, "types.a.gpu_tpye"),
        (9, "nodes.1.count"),
        (10, "nodes.2.type"),
        (11, "nodes.2.count"),
        (13, "links.rack.gb_per_s"),
        (14, "links.rack.latency_seconds"),
        (15, "links.foo"),
        (16, "node"),
    ]
    assert reply[3, "types.a.gpus"] == ("lab.toml:3: types.a.gpus: found 8.5; allowed: a whole number")
    assert "did you mean gpu_type?" in reply[4, "types.a.gpu_tpye"]
    assert "500GB, 64GiB" in reply[6, "types.a.memory_gb"]
    jargon = ("pydantic", "Input should", "validation", "type=", "loc")
    assert not [text for text in reply.values() if any(word in text for word in jargon)]


@pytest.mark.parametrize(
    ("text", "row", "said"),
    [
        ('[types.a]\ngpus = 2\ngpus_per_island = 4\n[[nodes]]\ntype = "a"', 3, "this type has 2 GPUs"),
        ('[types.a]\ngpus = 2\n[[nodes]]\ntype = "b"', 4, "the file has a"),
        ('[types.a]\ngpus = 2\n[types.s]\ngpus = 0\n[[nodes]]\ntype = "a"', 3, "must state it"),
        ('[types.s]\ngpus = 0\ncpus = 1\nmemory_gb = 1\n[[nodes]]\ntype = "s"', 5, "no machine has a GPU"),
        ('[types.a]\ngpus = 2\n[[nodes]]\ntype = "a"\nnames = ["x", "x"]', 5, "two machines have this name"),
        ('[types.a]\ngpus = 2\n[[nodes]]\ntype = "a"\nnames = ["x"]\ncount = 1', 6, "leave the count out"),
        ('[types.a]\ngpus = 61\n[[nodes]]\ntype = "a"', 2, "60 or less"),
        ("[types.a]\ngpus = 61\n", None, "this field is missing"),
        ("[types.a]\ngpus = \n", 2, "this is not TOML"),
        ("[types.a", 1, "this is not TOML"),
        ("", None, "this field is missing"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(text: str, row: int | None, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        cluster_from_toml(text, "lab.toml", "lab")
    assert (row, said) in [(problem.row, said) for problem in refused.value.problems if said in problem.what]


def test_a_missing_or_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        parse_cluster(str(tmp_path / "absent.toml"))


amounts = st.floats(0.001, 1e6)
words = st.text(min_size=1, max_size=6)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    racks = draw(st.lists(words, min_size=1, max_size=3, unique=True))
    names = draw(st.lists(words, min_size=len(racks), max_size=6, unique=True))
    numbered = draw(st.booleans())
    nodes = []
    for at, name in enumerate(names):
        gpus = draw(st.integers(1, 60))
        nodes.append(
            Node(
                f"node-{at}" if numbered else name,
                draw(st.sampled_from(["a", "b"])),
                min(at, len(racks) - 1),
                gpus,
                draw(words),
                draw(st.integers(1, gpus)),
                draw(amounts),
                draw(amounts),
                draw(amounts),
                draw(amounts),
                tuple(draw(st.lists(words, max_size=2))),
            )
        )
    link = st.builds(Link, amounts, st.floats(0, 1), st.floats(1, 100))
    return Cluster(draw(words), tuple(nodes), tuple(racks), draw(st.builds(Links, link, link, link, link)))


def nameless(cluster: Cluster) -> Cluster:
    """Kinds of machines that share a type name are numbered in the file; the rest must come back as it is."""
    nodes = tuple(Node(**{**vars(node), "type_name": ""}) for node in cluster.nodes)
    return Cluster(cluster.name, nodes, cluster.racks, cluster.links)


def test_machines_with_plain_names_are_written_as_a_count(tmp_path: Path) -> None:
    path = tmp_path / "philly.toml"
    write_cluster_file(parse_cluster("philly"), path)
    text = path.read_text()
    assert "count = 264\n" in text
    assert "count = 271\n" in text
    assert "names" not in text


@settings(max_examples=40, deadline=None)
@given(clusters())
def test_what_is_written_reads_back(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> None:
    path = tmp_path_factory.getbasetemp() / "cluster.toml"
    write_cluster_file(cluster, path)
    assert nameless(parse_cluster(str(path))) == nameless(cluster)
