"""The command line against a real API on loopback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.cli.app import run

from ...cli.conftest import Outcome
from ..serving import Serving, serving

Muster = Callable[..., Outcome]


@pytest.fixture
def no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and nothing of this machine's settings."""
    for name in [name for name in os.environ if name.startswith("MUSTER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "home"


@pytest.fixture
def api(no_daemon: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    with serving(no_daemon) as running:
        monkeypatch.setenv("MUSTER_URL", running.url)
        yield running


@pytest.fixture
def muster(capfdbinary: pytest.CaptureFixture[bytes]) -> Muster:
    """Runs a command line in this process; bytes that are no text are shown as they are escaped."""

    def call(*arguments: str | Path) -> Outcome:
        capfdbinary.readouterr()
        status = run([str(argument) for argument in arguments])
        captured = capfdbinary.readouterr()
        return Outcome(
            status, captured.out.decode(errors="backslashreplace"), captured.err.decode(errors="replace")
        )

    return call
