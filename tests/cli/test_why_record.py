"""`muster why JOB --record DIR` on a run that `muster simulate` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import muster.workload
from tests.cli.conftest import TRACE, Outcome

MODEL_FILES = Path(muster.workload.__file__).parent / "model_files"


def test_a_recorded_run_explains_a_wait(muster: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    out = tmp_path / "out"
    muster("simulate", tmp_path / "trace.csv", "--cluster", "1x8gpu", "--scheduler", "fifo", "--out", out)
    answer = muster("why", "3", "--record", out)
    assert answer.status == 0
    assert "it needs 4 GPUs" in " ".join(answer.out.split())
    waits = json.loads(muster("why", "3", "--record", out, "--json").out)["waits"]
    assert [wait["held_by"] for wait in waits] == [["1"]]


def test_an_unknown_job_of_a_record_exits_with_2(muster: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    out = tmp_path / "out"
    muster("simulate", tmp_path / "trace.csv", "--cluster", "1x8gpu", "--scheduler", "fifo", "--out", out)
    answer = muster("why", "17", "--record", out)
    assert (answer.status, answer.out) == (2, "")
    assert "JOB: found '17'; this run has no such job" in answer.err
    assert muster("why", "three").status == 2


def test_a_moment_of_a_recorded_run_can_be_chosen(muster: Callable[..., Outcome], tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    out = tmp_path / "out"
    muster("simulate", tmp_path / "trace.csv", "--cluster", "1x8gpu", "--scheduler", "fifo", "--out", out)
    held = json.loads(muster("why", "2", "--record", out, "--at", 700, "--json").out)["held"]
    assert (held["at_seconds"], held["gpus"], held["nodes"]) == (700, 4, ["node-0"])
    assert held["sentences"][1] == "It has 4 GPUs because its owner asks for exactly that."
    early = muster("why", "2", "--record", out, "--at", 5)
    assert (early.status, early.out) == (2, "")
    assert "--at: found 5.0; allowed: a moment at which the job ran, in seconds: 600 to 900" in early.err
    assert "--at: found '5'; allowed with --record only" in muster("why", "2", "--at", 5).err
    by_unit = json.loads(muster("why", "2", "--record", out, "--at", "11min", "--json").out)["held"]
    assert by_unit["at_seconds"] == 660
    assert "--at: found 'noon'; allowed: a time" in muster("why", "2", "--record", out, "--at", "noon").err


def test_a_run_whose_models_are_gone_still_explains_waits(
    muster: Callable[..., Outcome], tmp_path: Path
) -> None:
    models, out = tmp_path / "models", tmp_path / "out"
    models.mkdir()
    (models / "own.toml").write_text((MODEL_FILES / "resnet18.toml").read_text().replace("resnet18", "own"))
    (tmp_path / "trace.csv").write_text(TRACE)
    muster("simulate", tmp_path / "trace.csv", "--cluster", "1x8gpu", "--models", models, "--out", out)
    (models / "own.toml").unlink()
    answer = muster("why", "3", "--record", out)
    assert answer.status == 0
    assert "the run's models cannot be read" in " ".join(answer.out.split())


def test_a_job_that_may_shrink_waits_for_its_least_size(
    muster: Callable[..., Outcome], tmp_path: Path
) -> None:
    rows = ["a,0,16,16,16,600", "b,10,16,1,16,3600"]
    header = "job_id,submit_seconds,gpus,min_gpus,max_gpus,duration_seconds"
    (tmp_path / "trace.csv").write_text("\n".join([header, *rows, ""]))
    for scheduler, said in (
        ("gittins+joint", "it needs at least 1 GPU and"),
        ("fifo", "it needs 16 GPUs and"),
    ):
        flags = ("--cluster", "2x8gpu", "--scheduler", scheduler, "--out", tmp_path / scheduler)
        assert muster("simulate", tmp_path / "trace.csv", *flags).status == 0
        answer = muster("why", "b", "--record", tmp_path / scheduler)
        assert f"{said} 0 are free" in " ".join(answer.out.split())
