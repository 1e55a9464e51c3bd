"""A process that submits is killed at any moment: every job that was acknowledged is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 12


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_was_acknowledged_is_there_after_kill_9(url: str) -> None:
    code = Path(__file__).with_name("killed_while_submitting.py")
    done = subprocess.run(
        [sys.executable, code, url, str(KILLS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    lives = json.loads(done.stdout)
    assert len(lives) == KILLS
    assert sum(len(life["acknowledged"]) for life in lives) > KILLS
    last = 0
    for life in lives:
        # All that was acknowledged, at most what was asked for beyond that, and ids without a gap.
        assert set(map(tuple, life["acknowledged"])) <= set(map(tuple, life["there"]))
        ids = [job for job, _ in life["there"]]
        assert ids == list(range(last + 1, last + 1 + len(ids)))
        assert len({name for _, name in life["there"]}) == len(ids)
        last += len(ids)
