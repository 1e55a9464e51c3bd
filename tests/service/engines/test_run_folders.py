"""Progress in a job's output: an owner's expression may find anything, and never holds up the engine."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from muster.service.engines import Report, ReportFound, ReportRequest
from muster.service.engines.run_folders import ReadsRunFolders
from muster.training.unchanged import UnchangedJob

ENGINE = ReadsRunFolders()


def asked(folder: Path, progress: str) -> ReportRequest:
    return ReportRequest(1, 1, folder / "run", folder, UnchangedJob(progress=progress))


@pytest.mark.parametrize(
    ("progress", "line"),
    [
        (r"step (?P<step>\d+)|done", "done"),
        (r"step (?P<step>.*)", "step " + 5000 * "9"),
        (r"step (?P<step>.*)", "step ²"),
        (r"step (?P<step>.*)", "step 10000000000000000"),
    ],
)
def test_an_expression_may_find_what_is_no_step(tmp_path: Path, progress: str, line: str) -> None:
    (tmp_path / "0.log").write_text(f"step 3\n{line}\n")
    assert ENGINE.read_report(asked(tmp_path, progress)).report == Report(3)


def test_an_expression_that_would_search_for_ever_is_given_up(tmp_path: Path) -> None:
    """The engine says so; the line is not searched again."""
    request, output = asked(tmp_path, r"^(a+)+(?P<step>\d+)$"), tmp_path / "0.log"
    assert ENGINE.read_report(request) == ReportFound(), "there is no output yet"
    output.write_text(100 * ("a" * 5000 + "!\n"))
    found = ENGINE.read_report(request)
    assert "takes longer than 0.05 s on a line of output" in found.wrong
    assert found.output_read == output.stat().st_size
    with output.open("a") as more:
        more.write("aaa17\n")
    found = ENGINE.read_report(replace(request, output_read=found.output_read))
    assert found.report == Report(17)
    assert ENGINE.read_report(replace(request, output_read=found.output_read)).report is None, "it is not new"


def test_output_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0.log")
    assert "allowed: an ordinary file" in ENGINE.read_report(asked(tmp_path, r"step (?P<step>\d+)")).wrong
