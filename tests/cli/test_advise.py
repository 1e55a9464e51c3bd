"""`muster advise`: from two files to a page for each finding, and its errors."""

from __future__ import annotations

import csv
import html
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.advise.sites import job, node, site

from .conftest import Outcome

Muster = Callable[..., Outcome]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    jobs = [job("1", (0, 0, 30), "n1,n2", 4, 4), job("2", (0, 30, 60), "n1", 4, 4)]
    site(tmp_path, jobs, (node("n1"), node("n2")))
    return str(tmp_path / "sacct.txt"), str(tmp_path / "scontrol.txt")


def test_two_files_become_a_page_a_finding(muster: Muster, files: tuple[str, str], tmp_path: Path) -> None:
    log, cluster = files
    out = tmp_path / "advice"
    found = muster("advise", log, "--cluster", cluster, "--out", str(out))
    assert found.status == 0, found.err
    assert "scattered-gangs: 50.0 % of the gangs are on more nodes or racks than they need" in found.out
    assert "idle-gpus: not judged: no use of GPUs or CPUs" in found.out
    assert len(list(out.glob("*-*.md"))) == 9
    page = (out / "5-scattered-gangs.md").read_text()
    assert "| 1 | ann | 4 | 2 | 1 |" in page
    assert "## What to do" in page
    assert "<p><code>muster " in (out / "report.html").read_text()
    assert "`" not in (out / "report.html").read_text().partition("<body")[2].partition("<script")[0]
    numbers = re.findall(r"\d\.(\d+)", (out / "advice.md").read_text())
    assert max(map(len, numbers), default=0) <= 4
    advice = json.loads((out / "advice.json").read_text())
    assert [one["name"] for one in advice["findings"]][4] == "scattered-gangs"
    with (out / "advice.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, one in zip(rows, advice["findings"], strict=True):
        assert {name: row[name] for name in ("name", "status", "title")} == {
            name: one[name] for name in row if name in ("name", "status", "title")
        }
        saving = one["saving"] or {"low": "", "high": "", "unit": ""}
        assert [row[f"saving_{name}"] for name in ("low", "high", "unit")] == [
            str(saving[name]) for name in ("low", "high", "unit")
        ]
        assert row["what_to_do"] == " ".join(one["what_to_do"])
        assert (out / row["page"]).is_file()
    lines = (out / "advice.md").read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {row['name']}" for row in rows]
    page = html.unescape((out / "report.html").read_text())
    assert [row["title"] for row in rows if row["title"] not in page] == []
    typed = re.findall(r"muster advise .*?(?=<)", page, re.DOTALL)[0].replace("\\\n", "")
    assert shlex.split(typed)[2:5] == [log, "--cluster", cluster]


def test_settings_of_slurm_are_read_with_the_nodes(
    muster: Muster, files: tuple[str, str], tmp_path: Path
) -> None:
    log, cluster = files
    text = Path(cluster).read_text().replace("bf_interval=5", "bf_interval=5,bf_licenses")
    Path(cluster).write_text(text)
    found = muster("advise", log, "--cluster", cluster, "--out", str(tmp_path / "advice"))
    assert f"{cluster}: SchedulerParameters that are not simulated: bf_licenses" in found.err
    assert f"{cluster}: speeds of links are assumed" in found.err


@pytest.mark.parametrize(
    ("command", "more"), [("advise", ()), ("would", ("--gpus", "1", "--time-limit", "1h"))]
)
def test_no_setting_is_silently_ignored(
    muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, more: tuple[str, ...]
) -> None:
    """Neither where nothing is simulated, as no start is known, nor where the site's are of another scheduler."""
    monkeypatch.chdir(tmp_path)
    site(tmp_path, [job("1", (0, 9, 30), "n1", 4, 4)], (node("n1"),))
    log = Path("sacct.txt").read_text()
    Path("sacct.txt").write_text(log.replace("|2024-01-01T00:09:00|", "|Unknown|"))
    asked = (command, "sacct.txt", "--cluster", "scontrol.txt", *more)
    refused = muster(*asked, "--set", "bogus=1")
    assert (refused.status, "--set bogus: found '1'; slurm has no such setting" in refused.err) == (2, True)
    other = muster(*asked, "--scheduler", "fifo")
    assert (
        "scontrol.txt: scheduling settings of Slurm are left out: fifo stands for the site's own" in other.err
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "muster advise: allowed: LOG and --cluster CLUSTER, or --from slurm"),
        (["--from", "sge"], "--from: found 'sge'; allowed: slurm"),
        (["log", "--from", "slurm"], "--from: found 'slurm'; it asks Slurm itself"),
        (["no-such-log", "--cluster", "1x1gpu"], "no-such-log"),
        (
            ["no-such-log", "--cluster", "1x1gpu", "--set", "depth"],
            "--set: found 'depth'; allowed: KEY=VALUE, for example --set quantum_seconds=60",
        ),
        (
            ["no-such-log", "--cluster", "1x1gpu", "--days", "3"],
            "--days: found 3.0; a log that is a file is read whole; allowed: --from slurm --days N",
        ),
        (
            ["no-such-log", "--cluster", "1x1gpu", "--scheduler", "fifo", "--slurm-config", "slurm.conf"],
            "--slurm-config: found 'slurm.conf'; these are settings of the scheduler slurm, and fifo stands",
        ),
    ],
)
def test_advise_refuses_what_it_cannot_read(
    muster: Muster, tmp_path: Path, arguments: list[str], says: str
) -> None:
    found = muster("advise", *arguments, "--out", str(tmp_path / "advice"))
    assert found.status == 2
    assert says in found.err
    assert not (tmp_path / "advice").exists()
