"""How far a command is, where its messages go into a log."""

from __future__ import annotations

import threading

import pytest

from muster.cli.kept_runs import _bar
from muster.cli.profile_view import progress_line
from muster.cli.progress import LinesNowAndThen, progress_bars, spinner
from muster.simulation import Progress


def test_a_log_gets_a_line_soon_and_then_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    moments = iter([100.0, 100.0, 100.5, 101.5, 103.0, 131.0, 133.0, 160.0, 300.0])
    lines = LinesNowAndThen(clock=lambda: next(moments))
    for done in map(str, range(8)):
        lines.write(f"{done} done".__str__)
    assert capsys.readouterr().err.splitlines() == ["2 done", "5 done", "7 done"]


def test_a_short_run_writes_nothing_into_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars(["fifo"], 10) as show:
        show("fifo", Progress(jobs_done=5, simulated_seconds=60.0, jobs=10))
    assert capsys.readouterr().err == ""


def test_a_short_wait_is_seen_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with spinner("Reading a.csv"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with spinner("Reading a.csv"):
        pass
    assert "Reading a.csv" in capsys.readouterr().err


def test_a_long_wait_is_noted_in_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = threading.Event()
    monkeypatch.setattr("muster.cli.progress._SILENT_SECONDS", 0.0)
    monkeypatch.setattr("sys.stderr.flush", noted.set)
    with spinner("Reading a.csv"):
        assert noted.wait(60)
    assert capsys.readouterr().err == "Reading a.csv\n"


def test_runs_sweeps_and_profiles_say_how_far_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.cli.progress._SILENT_SECONDS", 0.0)
    with progress_bars(["las", "fifo"], 10) as show:
        show("las", Progress(jobs_done=10, simulated_seconds=90.0, jobs=10))
        show("fifo", Progress(jobs_done=5, simulated_seconds=60.0, jobs=10))
    with _bar(2_095) as finished:
        finished(12)
    with progress_line() as measuring:
        measuring("2 CPUs")
    assert capsys.readouterr().err.splitlines() == [
        "fifo: 5 of 10 jobs done, 1.00 min simulated",
        "12 of 2,095 runs done",
        "2 CPUs",
    ]
