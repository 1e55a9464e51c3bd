"""`muster why JOB --record DIR` on a run that `muster simulate` wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import TRACE, Outcome


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
