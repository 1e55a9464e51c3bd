"""`muster would`: a job that is not submitted, on a log with running and waiting jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.advise.sites import job, node, site

from .conftest import Outcome

Muster = Callable[..., Outcome]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """All jobs that ended took half an hour of their hour; two run on all GPUs since 10 and 20 minutes."""
    done = [job(f"e{at}", (at, at, at + 30), "n1", 1, 1) for at in range(0, 300, 60)]
    running = [job("r1", (300, 300, None), "n1", 4, 4), job("r2", (310, 310, None), "n2", 4, 4)]
    queued = [job("w", (320, None, None), "", 4, 4)]
    site(tmp_path, [*done, *running, *queued], (node("n1"), node("n2")))
    return str(tmp_path / "sacct.txt"), "--cluster", str(tmp_path / "scontrol.txt")


def test_a_job_waits_for_the_one_that_is_ahead(muster: Muster, files: tuple[str, ...]) -> None:
    found = muster("would", *files, "--gpus", "4", "--time-limit", "1h", "--draws", "5", "--json")
    assert found.status == 0, found.err
    answer = json.loads(found.out)
    assert (answer["running"], answer["waiting"], answer["ended"]) == (2, 1, 5)
    assert [one["gpus"] for one in answer["shapes"]] == [4, 2, 1]
    # r1 ends at 330 minutes, when w starts; r2 at 340, 20 minutes from now. The clocks of Slurm take their time.
    start = answer["shapes"][0]["start"]
    assert start["low_seconds"] == pytest.approx(1200, abs=61)
    assert start["high_seconds"] == pytest.approx(1200, abs=61)
    assert 1200 - 61 <= start["median_seconds"] <= 1200 + 61


def test_would_answers_in_a_table(muster: Muster, files: tuple[str, ...]) -> None:
    found = muster("would", *files, "--gpus", "2", "--time-limit", "1h", "--draws", "5")
    assert "2 jobs running, 1 waiting; durations are drawn from 5 jobs that ended." in found.out
    assert [line.split()[0] for line in found.out.splitlines()[-2:]] == ["2", "1"]


PARTITIONS = """
PartitionName=a MaxTime=04:00:00 MaxNodes=1 Default=YES State=UP
PartitionName=b MaxTime=UNLIMITED MaxNodes=UNLIMITED MinNodes=2 Default=NO State=UP
PartitionName=c MaxTime=1-00:00:00 State=DOWN
"""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            "--gpus 1 --time-limit 5h",
            "--time-limit: found '5.00 h'; allowed: up to 4.00 h, the MaxTime of partition a",
        ),
        (
            "--gpus 5 --time-limit 1h",
            "--gpus: found 5; it takes 2 nodes; allowed: up to 1, the MaxNodes of partition a",
        ),
        (
            "--gpus 2 --nodes 2 --time-limit 1h --partition a",
            "--nodes: found 2; it takes 2 nodes; allowed: up to 1",
        ),
        (
            "--gpus 2 --nodes 1 --time-limit 5h --partition b",
            "--nodes: found 1; allowed: from 2, the MinNodes of",
        ),
        (
            "--gpus 1 --time-limit 1h --partition c",
            "--partition: found 'c'; no job starts in it: its State is DOWN",
        ),
    ],
)
def test_would_refuses_what_a_partition_does(
    muster: Muster, tmp_path: Path, arguments: str, says: str
) -> None:
    done = [job(f"e{at}", (at, at, at + 30), "n1", 1, 1) for at in range(0, 300, 60)]
    site(tmp_path, done, (node("n1", partitions="a,b,c"), node("n2", partitions="a,b,c"), PARTITIONS))
    files = (str(tmp_path / "sacct.txt"), "--cluster", str(tmp_path / "scontrol.txt"))
    found = muster("would", *files, *arguments.split())
    assert (found.status, says in found.err) == (2, True), found.err


def test_would_asks_for_the_default_partition(muster: Muster, tmp_path: Path) -> None:
    done = [job(f"e{at}", (at, at, at + 30), "n1", 1, 1) for at in range(0, 300, 60)]
    parts = PARTITIONS.replace("MaxNodes=1", "MaxNodes=UNLIMITED")
    site(tmp_path, done, (node("n1"), node("n2", partitions="b"), parts))
    files = (str(tmp_path / "sacct.txt"), "--cluster", str(tmp_path / "scontrol.txt"), "--time-limit", "1h")
    assert "allowed: up to the 4 GPUs of partition a" in muster("would", *files, "--gpus", "5").err
    found = muster("would", *files, "--gpus", "4", "--draws", "5")
    assert (found.status, "--partition: a, the default of Slurm" in found.err) == (0, True), found.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--gpus", "9", "--time-limit", "1h"), "--gpus: found 9; allowed: up to the 8 GPUs"),
        (
            ("--gpus", "1", "--time-limit", "1h", "--days", "3"),
            "--days: found 3.0; a log that is a file is read",
        ),
        (
            ("--gpus", "2", "--time-limit", "1h", "--nodes", "3"),
            "--nodes: found 3; allowed: up to 2, as a node",
        ),
        (
            ("--gpus", "1", "--time-limit", "1h", "--at", "9d"),
            "--at: found '9.00 d'; the log ends 5.33 h after",
        ),
        (("--gpus", "1", "--time-limit", "0s"), "--time-limit: found '0s'; allowed: a time above 0"),
        (
            ("--gpus", "1", "--time-limit", "1h", "--cpus", "nan"),
            "--cpus: found 'nan CPU cores'; allowed: above 0, up",
        ),
        (
            ("--gpus", "1", "--time-limit", "1h", "--memory", "0"),
            "--memory: found '0 GB'; allowed: above 0, up to",
        ),
        (
            ("--gpus", "1", "--time-limit", "1h", "--memory", "1pb"),
            "--memory: found '1e+06 GB'; allowed: above 0",
        ),
        (("--gpus", "1", "--time-limit", "1h", "--partition", "b"), "--partition: found 'b'; allowed: a"),
        (("--gpus", "1", "--time-limit", "1h", "--at", "0"), "no job with a time limit had ended by then"),
    ],
)
def test_would_refuses(muster: Muster, files: tuple[str, ...], arguments: tuple[str, ...], says: str) -> None:
    found = muster("would", *files, *arguments)
    assert (found.status, says in found.err) == (2, True), found.err
