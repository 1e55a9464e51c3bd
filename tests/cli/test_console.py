"""Tables are as wide as the terminal, whatever it is called and whichever letters it has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome, muster_process

Muster = Callable[..., Outcome]


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_dumb_terminal_has_its_own_width(
    muster: Muster, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name, value in (("COLUMNS", "60"), ("TERM", "dumb"), ("TTY_COMPATIBLE", "1")):
        monkeypatch.setenv(name, value)
    shown = muster(command, trace, "--cluster", "1x8gpu", "--out", tmp_path / "out").out
    assert "left out: the terminal has 60 columns" in shown


def test_a_terminal_without_some_signs_shows_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a locale with ISO-8859-1, which has no minus sign; JSON is UTF-8 in any locale."""
    trace = tmp_path / "métier.csv"
    trace.write_text("job_id,submit_seconds,gpus,duration_seconds\na,0,1,60\nb,0,1,60\n")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    run = (
        "compare",
        trace,
        "--cluster",
        "1x1gpu",
        "--scheduler",
        "fifo",
        "--scheduler",
        "las",
        "--overwrite",
    )
    shown = muster_process(*run, folder=tmp_path)
    assert (shown.status, "1.00?" in shown.out) == (0, True)
    shown = muster_process(*run, "--json", folder=tmp_path)
    assert (shown.status, "métier.csv" in shown.out) == (0, True)
