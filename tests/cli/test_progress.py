"""How far a command is, where its messages go into a log."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.cli.kept_runs import _bar
from muster.cli.profile_view import progress_line
from muster.cli.progress import LinesNowAndThen, progress_bars, spinner
from muster.simulation import Progress

from .conftest import Outcome

SWEEP = """\
schedulers = ["fifo", "las"]
clusters = ["2x8gpu"]
[[synergy]]
jobs = 3
"""


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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("generate mixed --jobs 5 --gpus 8 -o made.csv", "Making the trace"),
        ("generate slurm-month --jobs 5 --gpus 32 -o site", "Simulating the site"),
        ("convert trace.csv -o trace.parquet", "Converting trace.csv"),
        ("report run --format csv", "Drawing the page and its charts"),
        ("sweep sweep.toml --workers 1", "Drawing the page and its charts"),
        (
            "capacity trace.csv --cluster 1x8gpu --scheduler fifo --add '1x8gpu nodes 0..1' --target 'mean wait < 1h'",
            "Drawing the page and its charts",
        ),
    ],
)
def test_long_steps_of_commands_are_named(
    muster: Callable[..., Outcome],
    trace: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    said: str,
) -> None:
    monkeypatch.chdir(trace.parent)
    Path("sweep.toml").write_text(SWEEP)
    assert muster("simulate", trace, "--cluster", "2x8gpu", "--out", "run").status == 0
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    done = muster(*shlex.split(words))
    assert done.status == 0, done.err
    assert said in done.err


def test_capacity_says_in_a_log_what_it_simulates(
    muster: Callable[..., Outcome], trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.cli.progress._SILENT_SECONDS", 0.0)
    asked = ("--scheduler", "fifo", "--add", "1x8gpu nodes 0..1", "--target", "mean wait < 1h")
    done = muster("capacity", trace, "--cluster", "1x8gpu", *asked, "--out", tmp_path / "out")
    assert "Simulating 5 jobs 2 times\n" in done.err
