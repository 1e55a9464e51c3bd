"""This process as a start of a job."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.training.run_folder import begin_start


@pytest.fixture
def as_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[int], None]]:
    """Makes this process the start of a job."""
    handler = signal.getsignal(signal.SIGTERM)

    def become(epoch: int, checkpoint_seconds: float = 600.0) -> None:
        begin_start(tmp_path, epoch)
        monkeypatch.setenv("MUSTER_RUN_DIR", str(tmp_path))
        monkeypatch.setenv("MUSTER_EPOCH", str(epoch))
        monkeypatch.setenv("MUSTER_CHECKPOINT_SECONDS", str(checkpoint_seconds))

    yield become
    signal.signal(signal.SIGTERM, handler)
