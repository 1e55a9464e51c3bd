"""`muster --log-level debug` shows the phases of each decision with the ids of the jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TRACE, Outcome

PHASES = {
    "las+proportional+pack": ["ranked: 1, 2, 3, 4", "placed: 1"],
    "dally": ["ranked: 1", "placed: 1"],
    "gandiva": ["placed, alone or in turns: 1"],
    "gandiva-sim": ["placed: 1"],
    "fifo+easy": ["ranked: 2, 3, 4", "placed: 1", "reserved: 2"],
    "slurm": ["ranked: 2, 3, 4", "started by backfill: 1", "started by the main loop: 5"],
}


@pytest.mark.parametrize("scheduler", PHASES)
def test_debug_shows_the_phases_of_decisions(
    muster: Callable[..., Outcome], tmp_path: Path, scheduler: str
) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    run = ("simulate", tmp_path / "trace.csv", "--cluster", "1x8gpu", "--scheduler", scheduler)
    quiet = muster(*run, "--out", tmp_path / "quiet")
    assert "ranked" not in quiet.err
    debug = muster("--log-level", "debug", *run, "--out", tmp_path / "debug")
    for phase in PHASES[scheduler]:
        assert f"s: {phase}\n" in debug.err
    assert debug.status == 0
    assert muster("--log-level", "loud", *run).status == 2
