"""Tables are as wide as the terminal, whatever it is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Muster = Callable[..., Outcome]


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_a_dumb_terminal_has_its_own_width(
    muster: Muster, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name, value in (("COLUMNS", "60"), ("TERM", "dumb"), ("TTY_COMPATIBLE", "1")):
        monkeypatch.setenv(name, value)
    shown = muster(command, trace, "--cluster", "1x8gpu", "--out", tmp_path / "out").out
    assert "left out: the terminal has 60 columns" in shown
