"""What may be wrong with matrices, models and requests, at the command line: a sentence each."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.cli.app import run

MODEL = """\
name = "my-net"
family = "image"
batch = 64
seconds_per_iteration = 0.5
source = "made up"
licence = "none"
reference_cpus_per_gpu = 2
reference_memory_gb_per_gpu = 50
cpus_per_gpu = [1, 2, 4]
memory_gb_per_gpu = [25, 50]
speed = [
  [0.2, 0.6],
  [0.2, 1.0],
  [0.2, 1.5],
]
"""
ROWS = """\
job_id,submit_seconds,duration_seconds,gpus,model,cpus,memory_gb
a,0,600,1,my-net,,
b,0,600,1,not-known,,
c,0,600,2,my-net,10,200
d,0,600,1,not-known,3,100
"""
Simulated = tuple[int, str, list[str]]


@pytest.fixture
def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str, str], Simulated]:
    """Status, what stood on standard error, and the notes of a run with this model under an allocation."""
    (tmp_path / "models").mkdir()
    (tmp_path / "trace.csv").write_text(ROWS)

    def call(model: str, allocation: str) -> Simulated:
        (tmp_path / "models" / "my-net.toml").write_text(model)
        inputs = [str(tmp_path / "trace.csv"), "--cluster", "1x4gpu,12cpu,250gb,0.25gb/s"]
        own = ["--models", str(tmp_path / "models"), "--out", str(tmp_path / "out"), "--overwrite"]
        status = run(["simulate", *inputs, *own, "--scheduler", f"fifo+{allocation}"])
        summary = tmp_path / "out" / "summary.json"
        notes = json.loads(summary.read_text())["notes"] if status == 0 else []
        return status, capsys.readouterr().err, notes

    return call


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("[1.0]", ":11: speed: found '1 value in row 2'; memory_gb_per_gpu has 2 points"),
        ("[nan, 1.0]", ":11: speed, row 2, value 1: found nan; allowed: a number above 0"),
        ("[, 1.0]", ":13: not valid TOML"),
    ],
)
def test_a_matrix_with_a_hole_is_refused(
    simulated: Callable[[str, str], Simulated], row: str, said: str
) -> None:
    status, err, _ = simulated(MODEL.replace("[0.2, 1.0]", row), "tune")
    assert (status, err.count(said), "Traceback" in err) == (2, 1, False)


@pytest.mark.parametrize("allocation", ["proportional", "greedy", "tune", "tune-plus", "opt", "joint"])
def test_the_run_goes_on_and_each_is_said_once(
    simulated: Callable[[str, str], Simulated], allocation: str
) -> None:
    """A row that falls, a model without a file; jobs that request more than their share get it."""
    status, err, notes = simulated(MODEL.replace("[0.2, 1.5]", "[0.2, 0.9]"), allocation)
    assert status == 0
    beginnings = (
        "my-net.toml: speed fell with more CPU or memory; 1 of 6 points were made monotone, the largest change at "
        "4 CPUs, 50 GB (0.9 to 1)",
        "no model file for not-known: taken as insensitive to CPU, memory and storage",
    )
    for beginning in beginnings:
        assert sum(note.startswith(beginning) for note in notes) == 1, notes
        assert err.count(beginning) == 1
    assert len(notes) == len(beginnings)


def test_requested_gives_what_is_stated(simulated: Callable[[str, str], Simulated]) -> None:
    """Then nothing is below its minimum, and nothing is said of it."""
    _, _, notes = simulated(MODEL, "requested")
    assert notes == ["no model file for not-known: taken as insensitive to CPU, memory and storage"]
