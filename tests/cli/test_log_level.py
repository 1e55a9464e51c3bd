"""`muster --log-level debug` shows the phases of each decision with job numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TRACE, Outcome

PHASES = {
    "las+proportional+pack": ["ranked: [0, 1, 2, 3]", "placed: [0]"],
    "dally": ["ranked: [0]", "placed: [0]"],
    "gandiva": ["placed, alone or in turns: [0]"],
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
