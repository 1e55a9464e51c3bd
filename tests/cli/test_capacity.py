"""`muster capacity` on a queue whose waits follow from a division, and clusters with nodes added."""

from __future__ import annotations

import base64
import csv
import html
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.cluster.shipped import parse_cluster
from muster.formatting import counted, duration, markdown_cell
from muster.problems import InputError
from muster.sweep.capacity import parse_added

from .conftest import Outcome

Muster = Callable[..., Outcome]
JOBS, SECONDS = 8, 100.0


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Eight jobs of a whole node, all at once."""
    path = tmp_path / "jobs.csv"
    rows = [f"{at},0,8,{SECONDS:g}" for at in range(JOBS)]
    path.write_text("\n".join(["job_id,submit_seconds,gpus,duration_seconds", *rows]) + "\n")
    return str(path)


def ask(muster: Muster, trace: str, out: Path, *more: str) -> Outcome:
    cluster = ("--cluster", "1x8h100", "--scheduler", "fifo", "--restart-cost", "0")
    return muster("capacity", trace, *cluster, "--out", str(out), *more)


def mean_wait(nodes: int) -> float:
    return sum(SECONDS * (job // nodes) for job in range(JOBS)) / JOBS


def test_the_curve_and_the_least_number_that_meets(muster: Muster, trace: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = ask(
        muster, trace, out, "--add", "h100 nodes 0..6 step 2", "--target", "mean wait < 100s", "--json"
    )
    answer = json.loads(found.out)
    assert [(one["nodes"], one["gpus"]) for one in answer["curve"]] == [(0, 8), (2, 24), (4, 40), (6, 56)]
    waits = [mean_wait(1 + more) for more in (0, 2, 4, 6)]
    assert [one["seconds"] for one in answer["curve"]] == pytest.approx(waits)
    assert [one["meets"] for one in answer["curve"]] == [wait < 100 for wait in waits]
    assert answer["least_nodes"] == 2
    assert answer["answer"].startswith("2 more nodes of 8 H100 meet mean wait < 1.67 min: 1.46 min.")
    assert json.loads((out / "capacity.json").read_text())["curve"] == answer["curve"]
    assert "2 more nodes" in (out / "report.html").read_text()
    rows = list(csv.reader((out / "capacity.csv").read_text().splitlines()))
    assert rows[0] == list(answer["curve"][0])
    assert [row[:3] for row in rows[1:]] == [
        [str(one[name]) for name in ("nodes", "gpus", "seconds")] for one in answer["curve"]
    ]
    said, _, header, _, *lines = (out / "capacity.md").read_text().splitlines()
    assert said == answer["answer"]
    cells = [[markdown_cell(value) for value in one.values()] for one in answer["curve"]]
    assert [line.strip("| ").split(" | ") for line in (header, *lines)] == [rows[0], *cells]


def test_the_page_has_the_curve_as_picture_table_and_files(
    muster: Muster, trace: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ask(muster, trace, out, "--add", "h100 nodes 0..6 step 2", "--target", "mean wait < 100s")
    curve = json.loads((out / "capacity.json").read_text())["curve"]
    page = (out / "report.html").read_text()
    hovered = [html.unescape(words) for words in re.findall(r"<title>(\d[^<]*)</title>", page)]
    said = [
        f"{counted(one['nodes'], 'more node')}, {one['gpus']} GPUs: mean wait {duration(one['seconds'])}, "
        f"{'meets' if one['meets'] else 'misses'} mean wait < 1.67 min"
        for one in curve
    ]
    assert hovered == said * 2, "once for a wide page, once for a phone"
    assert page.count(">2 more<") == 2
    files = dict(re.findall(r'download="([^"]+)" href="data:[^;]+;base64,([^"]+)"', page))
    assert files.keys() == {"capacity.png", "capacity.svg", "capacity.csv"}
    for name, content in files.items():
        assert base64.b64decode(content) == (out / "charts" / name).read_bytes()
    shown = html.unescape(
        re.sub(r"<[^>]+>", "", page.partition("Run it again</h2>")[2].partition("</pre>")[0])
    )
    again = shlex.split(shown.replace("\\\n", ""))
    assert again[:2] == ["muster", "capacity"]
    assert muster(*again[1:], "--overwrite").status == 0
    assert json.loads((out / "capacity.json").read_text())["curve"] == curve
    heads = re.findall(r"<th[^>]*>([^<]+)</th>", page.partition("<thead>")[2].partition("</thead>")[0])
    assert [html.unescape(head) for head in heads] == [
        "More nodes", "GPUs", "mean wait, min", "Standard deviation, min", "Meets mean wait < 1.67 min",
    ]  # fmt: skip
    table = list(csv.DictReader((out / "charts" / "capacity.csv").read_text().splitlines()))
    assert [(int(row["more_nodes"]), float(row["seconds"]), row["meets"]) for row in table] == [
        (one["nodes"], one["seconds"], str(one["meets"])) for one in curve
    ]


def test_no_number_of_nodes_may_meet_the_target(muster: Muster, trace: str, tmp_path: Path) -> None:
    found = ask(muster, trace, tmp_path / "out", "--add", "h100 nodes 1..2", "--target", "max wait < 1s")
    assert found.status == 0
    assert (
        "No number of more nodes that was tried meets max wait < 1.00 s; the least is 3.33 min" in found.out
    )


def test_nodes_that_hold_fewer_jobs_do_not_meet_the_target(muster: Muster, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    rows = ["a,0,24,100", "b,0,8,10", "c,0,24,100", "d,0,99,1"]
    path.write_text("\n".join(["job_id,submit_seconds,gpus,duration_seconds", *rows]) + "\n")
    asked = ("--add", "h100 nodes 0..3", "--target", "mean wait < 1h", "--skip-impossible")
    found = ask(muster, str(path), tmp_path / "out", *asked, "--json")
    answer = json.loads(found.out)
    assert [(one["left_out"], one["meets"]) for one in answer["curve"]] == [
        (3, False),
        (3, False),
        (1, True),
        (1, True),
    ]
    assert answer["answer"].startswith("2 more nodes of 8 H100 meet")
    assert "With 0, 1 more, jobs are left out that fit on more nodes: not met." in answer["answer"]
    assert "left out 1 job that cluster 1x8h100 could never hold: d" in found.err


def test_jobs_that_never_finish_miss_the_target(muster: Muster, tmp_path: Path) -> None:
    """Tenant b may hold 8 GPUs and asks for 16: its job waits without end, however many nodes there are."""
    path, out = tmp_path / "jobs.csv", tmp_path / "out"
    rows = ["1,0,8,7200,a", "2,60,16,3600,b", "3,60,8,600,a"]
    path.write_text("\n".join(["job_id,submit_seconds,gpus,duration_seconds,tenant", *rows]) + "\n")
    asked = ("--add", "1x8gpu nodes 0..1", "--target", "max wait < 10min", "--set", "limits=b:8")
    found = muster(
        *("capacity", str(path), "--cluster", "2x8gpu", "--scheduler", "quota+fifo", "--out", str(out)),
        *asked,
    )
    assert "No number of more nodes that was tried meets max wait < 10.0 min." in found.out
    assert "With 0, 1 more, 1 job does not finish: not met." in found.out
    assert [line.split()[-2:] for line in found.out.splitlines()[1:3]] == [["1", "unfinished"]] * 2
    curve = json.loads((out / "capacity.json").read_text())["curve"]
    assert [(one["unfinished"], one["meets"]) for one in curve] == [(1, False)] * 2
    page = (out / "report.html").read_text()
    assert "1 job does not finish" in page
    assert "Jobs not in the figure" in page
    assert "not in the figure: 1 unfinished" in page


@pytest.mark.parametrize(
    ("long", "timed_out", "says"),
    [
        ([36000], [1, 0], "With 0 more, 1 job reaches its time limit: not met."),
        ([40000], [1, 1], "With any number 1 job reaches its time limit: not in the figures."),
        ([36000, 40000], [2, 1], "With 0 more, up to 2 jobs reach their time limit, with others 1: not met."),
    ],
)
def test_jobs_ended_at_their_limits_are_counted(
    muster: Muster, tmp_path: Path, long: list[int], timed_out: list[int], says: str
) -> None:
    """On one node jobs take turns, and what restarts cost brings one to its limit; one of 40,000 s is always ended."""
    path, out = tmp_path / "jobs.csv", tmp_path / "out"
    rows = ["2,0,8,3000,3600", "3,10,8,600,3600"]
    rows += [f"long-{at},{at * 1_000_000},8,{seconds},36000" for at, seconds in enumerate(long)]
    path.write_text(
        "\n".join(["job_id,submit_seconds,gpus,duration_seconds,time_limit_seconds", *rows]) + "\n"
    )
    cluster = ("--cluster", "1x8gpu", "--scheduler", "las", "--end-at-limit", "--out", str(out))
    asked = ("--add", "1x8gpu nodes 0..2 step 2", "--target", "max wait < 1d")
    answer = json.loads(muster("capacity", str(path), *cluster, *asked, "--json").out)
    curve = answer["curve"]
    assert [one["timed_out"] for one in curve] == timed_out
    assert [one["meets"] for one in curve] == [count == timed_out[-1] for count in timed_out]
    assert says in answer["answer"]


def test_nodes_of_another_kind_can_be_added(muster: Muster, trace: str, tmp_path: Path) -> None:
    add = "1x8a100,24cpu,500gb nodes 3..3"
    found = ask(muster, trace, tmp_path / "out", "--add", add, "--target", "p50 wait < 1h", "--json")
    answer = json.loads(found.out)
    assert answer["node"] == {"gpus": 8, "gpu_type": "A100"}
    assert answer["curve"][0]["seconds"] == pytest.approx(SECONDS / 2)


SITE = """\
NodeName=n1 CPUTot=48 RealMemory=500000 Gres=gpu:8 State=IDLE Partitions=train
NodeName=n2 CPUTot=48 RealMemory=500000 Gres=gpu:8 State=IDLE Partitions=train
NodeName=n3 CPUTot=48 RealMemory=500000 Gres=gpu:8 State=IDLE Partitions=debug
"""


@pytest.fixture
def site(tmp_path: Path) -> tuple[str, str]:
    """Jobs of one partition, and the nodes of two."""
    jobs, nodes = tmp_path / "partition.csv", tmp_path / "scontrol.txt"
    rows = [f"{at},0,8,{SECONDS:g},debug" for at in range(JOBS)]
    jobs.write_text("\n".join(["job_id,submit_seconds,gpus,duration_seconds,partition", *rows]) + "\n")
    nodes.write_text(SITE)
    return str(jobs), str(nodes)


def test_added_nodes_are_those_of_compare(muster: Muster, site: tuple[str, str], tmp_path: Path) -> None:
    """In each partition: that of the jobs has one node, and three with two more."""
    jobs, nodes = site
    flags = ("--scheduler", "fifo", "--restart-cost", "0", "--json")
    asked = (
        "--add",
        "1x8gpu,48cpu,524gb nodes 2..2",
        "--target",
        "mean wait < 1h",
        "--out",
        str(tmp_path / "a"),
    )
    found = muster("capacity", jobs, "--cluster", nodes, *flags, *asked)
    more = ("--cluster", f"{nodes} + 2x8gpu,48cpu,524gb", "--out", str(tmp_path / "b"))
    (summary,) = json.loads(muster("compare", jobs, *more, *flags).out)["summaries"]
    seconds = json.loads(found.out)["curve"][0]["seconds"]
    assert seconds == summary["wait_seconds"]["mean"] == pytest.approx(mean_wait(3))
    assert "--add 1x8gpu,48cpu,524gb: the added nodes are in each partition: train, debug" in found.err


def test_nodes_of_a_type_in_two_partitions_say_theirs(
    muster: Muster, site: tuple[str, str], tmp_path: Path
) -> None:
    jobs, nodes = site
    asked = (
        "--add",
        "gpu nodes 2..2",
        "--target",
        "mean wait < 1h",
        "--json",
        "--out",
        str(tmp_path / "out"),
    )
    found = muster("capacity", jobs, "--cluster", nodes, "--scheduler", "fifo", "--restart-cost", "0", *asked)
    assert json.loads(found.out)["curve"][0]["seconds"] == pytest.approx(mean_wait(1))
    note = (
        "--add gpu: the added nodes are like n1, in partition train; other nodes of this type are not. "
        "Hint: 'in PARTITION' at the end of --add names one of train, debug"
    )
    assert note in found.err
    assert note in html.unescape((tmp_path / "out" / "report.html").read_text())


@pytest.mark.parametrize("kind", ["gpu", "1x8gpu,48cpu,524gb"])
@pytest.mark.parametrize(("partition", "nodes"), [("debug", 3), ("train", 1)])
def test_added_nodes_may_be_of_one_partition(
    muster: Muster, site: tuple[str, str], tmp_path: Path, kind: str, partition: str, nodes: int
) -> None:
    """The jobs are all in debug, of which there is one node."""
    jobs, cluster = site
    target = ("--target", "mean wait < 1h", "--json", "--out", str(tmp_path / "out"))
    given = ("--cluster", cluster, "--scheduler", "fifo", "--restart-cost", "0", *target)
    found = muster("capacity", jobs, *given, "--add", f"{kind} nodes 2..2 in {partition}")
    assert json.loads(found.out)["curve"][0]["seconds"] == pytest.approx(mean_wait(nodes))
    assert "the added nodes are" not in found.err


@pytest.mark.parametrize(
    ("add", "says"),
    [
        ("gpu nodes 0..1 in prod", "--add gpu: found 'prod'; in PARTITION: allowed: train, debug"),
        ("1x8gpu nodes 0..1 in prod", "--add 1x8gpu: found 'prod'; in PARTITION: allowed: train, debug"),
    ],
)
def test_a_partition_that_there_is_not_is_refused(
    muster: Muster, site: tuple[str, str], tmp_path: Path, add: str, says: str
) -> None:
    jobs, nodes = site
    target = ("--target", "mean wait < 1h", "--out", str(tmp_path / "out"))
    found = muster("capacity", jobs, "--cluster", nodes, "--scheduler", "fifo", "--add", add, *target)
    assert (found.status, says in found.err) == (2, True), found.err


def test_a_cluster_without_partitions_has_none_to_add_to(muster: Muster, trace: str, tmp_path: Path) -> None:
    found = ask(
        muster, trace, tmp_path / "out", "--add", "h100 nodes 0..1 in a", "--target", "mean wait < 1h"
    )
    says = "--add h100: found 'a'; in PARTITION: cluster 1x8h100 has no partition for them"
    assert (found.status, says in found.err) == (2, True), found.err


def test_the_page_has_the_notes_of_the_terminal(muster: Muster, trace: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    lines = Path(trace).read_text().splitlines()
    Path(trace).write_text("\n".join([f"{lines[0]},priority", *(f"{line},1" for line in lines[1:])]) + "\n")
    found = ask(muster, trace, out, "--add", "h100 nodes 0..1", "--target", "mean wait < 100s")
    notes = [line for line in found.err.splitlines() if "no job names" in line or "ignores priority" in line]
    assert len(notes) == 2, found.err
    page = html.unescape((out / "report.html").read_text())
    assert all(note in page for note in notes)


@pytest.mark.parametrize("kind", ["h100", "1x8h100,96cpu,1tb"])
def test_nodes_of_a_curve_stand_in_a_rack_of_their_own(tmp_path: Path, kind: str) -> None:
    toml = '[types.a]\ngpus = 8\ngpu_type = "H100"\ncpus = 96\nmemory_gb = 1000\nstorage_gb_per_s = 0.5\n'
    racks = "".join(f'[[nodes]]\ntype = "a"\nrack = "{rack}"\ncount = 1\n' for rack in ("near", "far"))
    (tmp_path / "two.toml").write_text(toml + racks)
    cluster = parse_cluster(str(tmp_path / "two.toml"))
    more = parse_added(f"{kind} nodes 0..2 step 2", cluster).to(cluster, 2)
    assert (more.racks, [node.rack for node in more.nodes]) == (("near", "far", "added"), [0, 1, 2, 2])
    joined = parse_cluster(f"{tmp_path / 'two.toml'} + 2x8h100,96cpu,1tb")
    assert (joined.racks, [node.rack for node in joined.nodes]) == (more.racks, [0, 1, 2, 2])
    assert [node.amounts for node in joined.nodes] == [node.amounts for node in more.nodes]


def test_resources_assumed_of_added_nodes_are_noted(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "job_id,submit_seconds,gpus,duration_seconds,cpus,memory_gb\n1,0,8,60,96,9\n"
    )
    (tmp_path / "now.toml").write_text(
        "[types.a]\ngpus = 8\ncpus = 128\nmemory_gb = 1000\nstorage_gb_per_s = 1\n[[nodes]]\ntype = 'a'\n"
    )
    asked = ("--add", "1x8gpu,2tb nodes 0..1", "--target", "mean wait < 1h", "--out", tmp_path / "a")
    found = muster("capacity", tmp_path / "jobs.csv", "--cluster", tmp_path / "now.toml", *asked)
    assumed = "assumed 3 CPU cores and 0.0625 GB/s of storage for each GPU of the added nodes"
    assert found.err.count(assumed) == 1
    more = ("--cluster", f"{tmp_path / 'now.toml'} + 1x8gpu,2tb", "--out", tmp_path / "b")
    done = muster("compare", tmp_path / "jobs.csv", *more, "--scheduler", "fifo")
    assert assumed in done.err


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("max wait < 1d", "Without more nodes the cluster meets max wait < 24.0 h: 1.67 h."),
        ("max wait < 1h", "1 more node of 2 GPUs meets max wait < 1.00 h: 50.0 min."),
    ],
)
def test_the_least_number_of_nodes_is_said(muster: Muster, tmp_path: Path, target: str, says: str) -> None:
    """Three jobs of 50 minutes, one after the other on one node; two nodes do them in two turns."""
    trace = tmp_path / "three.csv"
    trace.write_text("job_id,submit_seconds,gpus,duration_seconds\n1,0,2,3000\n2,0,2,3000\n3,0,2,3000\n")
    command = ("capacity", str(trace), "--cluster", "1x2gpu", "--scheduler", "fifo", "--restart-cost", "0")
    add = ("--add", "1x2gpu nodes 0..1", "--target", target)
    found = muster(*command, *add, "--out", str(tmp_path / "out"))
    assert says in found.out, found.out


@pytest.mark.parametrize(
    ("add", "target", "says"),
    [
        ("h100 0..4", "p90 wait < 1h", "--add: found 'h100 0..4'; allowed: KIND nodes FIRST..LAST"),
        ("v100 nodes 0..4", "p90 wait < 1h", "--add: found 'v100'; allowed: a type of GPU"),
        (
            "3x8h100 nodes 0..4",
            "p90 wait < 1h",
            "--add: found '3x8h100'; allowed: one node, as 1x8h100; nodes",
        ),
        ("h100 nodes 4..0", "p90 wait < 1h", "allowed: FIRST up to LAST"),
        (
            "h100 nodes 1..100001 step 9999",
            "p90 wait < 1h",
            "--add: found 'h100 nodes 1..100001 step 9999'; allowed: FIRST up to LAST, which is at most 100000,",
        ),
        ("h100 nodes 0..4", "p42 wait < 1h", "--target: found 'p42 wait < 1h'"),
        ("h100 nodes 0..4", "p90 wait < soon", "--target: found 'soon'"),
    ],
)
def test_capacity_names_what_it_cannot_read(
    muster: Muster, trace: str, tmp_path: Path, add: str, target: str, says: str
) -> None:
    found = ask(muster, trace, tmp_path / "out", "--add", add, "--target", target)
    assert (found.status, says in found.err) == (2, True), found.err


def test_nodes_are_added_to_a_cluster_behind_a_plus() -> None:
    cluster = parse_cluster("2x4v100,16cpu,100gb + 1x8h100,96cpu,1tb+1x2a100,8cpu,100gb")
    assert [(node.name, node.gpu_type, node.gpus) for node in cluster.nodes] == [
        ("node-0", "V100", 4),
        ("node-1", "V100", 4),
        ("node-2", "H100", 8),
        ("node-3", "A100", 2),
    ]
    assert cluster.name == "2x4v100,16cpu,100gb + 1x8h100,96cpu,1tb+1x2a100,8cpu,100gb"
    with pytest.raises(InputError, match="found 'philly'; allowed behind a cluster and"):
        parse_cluster("philly + philly")


def test_added_nodes_stand_in_a_rack_of_their_own() -> None:
    philly = parse_cluster("philly")
    more = parse_cluster("philly + 2x8h100")
    assert len(more.nodes) == len(philly.nodes) + 2
    if len(philly.racks) > 1:
        assert more.racks == (*philly.racks, "added")
    assert len({node.name for node in more.nodes}) == len(more.nodes)
