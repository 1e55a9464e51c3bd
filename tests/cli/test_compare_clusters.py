"""Several `--cluster` in `compare`: every cluster under every scheduler, side by side."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import TRACE, Outcome, muster_process

Muster = Callable[..., Outcome]
FLAGS = ("--cluster", "1x8gpu", "--cluster", "2x8gpu", "--scheduler", "fifo", "--scheduler", "las")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A folder in which two schedulers were compared on two clusters, and what the command answered."""
    folder = tmp_path_factory.mktemp("clusters")
    (folder / "trace.csv").write_text(TRACE)
    return folder, muster_process("compare", "trace.csv", *FLAGS, "--out", "all", "--json", folder=folder)


def test_json_has_a_run_for_each_cluster_and_scheduler(compared: tuple[Path, Outcome]) -> None:
    _, done = compared
    assert done.status == 0, done.err
    answer = json.loads(done.out)
    pairs = [(run["cluster"], run["scheduler"].split("+")[0]) for run in answer["summaries"]]
    assert pairs == [("1x8gpu", "fifo"), ("1x8gpu", "las"), ("2x8gpu", "fifo"), ("2x8gpu", "las")]
    # By hand: on 8 GPUs jobs 2, 3 and 4 wait for job 1 or 2; on 16 GPUs job 4 alone waits, from 30 to 310.
    assert answer["summaries"][0]["wait_seconds"]["mean"] == pytest.approx((590 + 580 + 870) / 5)
    assert answer["summaries"][2]["wait_seconds"]["mean"] == pytest.approx(280 / 5)


def test_each_run_on_two_clusters_is_the_run_alone(
    muster: Muster, compared: tuple[Path, Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, done = compared
    monkeypatch.chdir(folder)
    own = json.loads(done.out)["runs"][3]
    flags = ("--cluster", "2x8gpu", "--scheduler", "las", "--out", tmp_path / "alone")
    assert muster("simulate", "trace.csv", *flags).status == 0
    for path in (*(tmp_path / "alone").glob("*.parquet"), tmp_path / "alone" / "run.json"):
        assert path.read_bytes() == (folder / "all" / own / path.name).read_bytes()


def test_the_page_names_cluster_and_scheduler(compared: tuple[Path, Outcome]) -> None:
    folder, _ = compared
    page = (folder / "all" / "report.html").read_text()
    for row in ("fifo on 1x8gpu", "las on 1x8gpu", "fifo on 2x8gpu", "las on 2x8gpu"):
        assert row in page
    assert "trace.csv on 2 clusters" in page
    assert "1x8gpu: 1 node, 8 GPUs · 2x8gpu: 2 nodes, 16 GPUs" in page
    assert "has 4 GPUs because its owner asks" in gzip.decompress(
        base64.b64decode(page.partition('id="data">')[2].partition("<")[0])
    ).decode("utf-8", "ignore")
    command = page.partition("<pre>")[2].partition("</pre>")[0].replace("\\\n", "")
    assert command.count("--cluster") == command.count("--scheduler") == 2


def test_the_table_names_cluster_and_scheduler(muster: Muster, trace: Path, tmp_path: Path) -> None:
    done = muster("compare", trace, *FLAGS, "--out", tmp_path / "out")
    assert done.status == 0
    first_column = " ".join(line.split("  ")[0].strip() for line in done.out.splitlines())
    for row in ("fifo on 1x8gpu", "las on 1x8gpu", "fifo on 2x8gpu", "las on 2x8gpu"):
        assert row in first_column


def test_two_clusters_of_one_name_are_refused(muster: Muster, trace: Path, tmp_path: Path) -> None:
    refused = muster(
        "compare", trace, "--cluster", "1x8gpu", "--cluster", "1x8gpu", "--out", tmp_path / "out"
    )
    assert refused.status == 2
    assert "--cluster: found '1x8gpu'; another cluster has the same name; give each once" in refused.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "t.csv", "--cluster", "1x8gpu", "--cluster", "2x8gpu"),
        ("simulate", "t.csv", "--cluster", "1x8gpu", "--scheduler", "fifo", "--scheduler", "las"),
        ("compare", "t.csv", "--cluster", "1x8gpu", "--seed", "1", "--seed", "2"),
        ("sweep", "t.toml", "--out", "a", "--out", "b"),
        ("generate", "mixed", "--jobs", "5", "--gpus", "8", "-o", "t.csv", "--seed", "1", "--seed", "2"),
        ("token", "create", "ann", "--role", "operator", "--role", "user"),
    ],
)
def test_an_option_for_one_value_given_twice_is_refused(muster: Muster, arguments: tuple[str, ...]) -> None:
    refused = muster(*arguments)
    assert refused.status == 2
    assert f"{arguments[-2]} is given twice; it takes one value" in refused.err
