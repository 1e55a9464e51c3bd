"""Ctrl-C: status 130, and nothing half written.

The signal is sent from within the run, so it always comes midway; to the whole group, as a terminal does.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import TRACE, muster_process

INTERRUPTING = """\
import os
import signal

from muster.schedulers.parts import Order

class Interrupting(Order):
    name = "interrupting"

    def key(self, jobs):
        os.killpg(os.getpgrp(), signal.SIGINT)
        signal.pause()
"""


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_an_interrupt_leaves_nothing(tmp_path: Path, command: str) -> None:
    (tmp_path / "trace.csv").write_text(TRACE)
    (tmp_path / "mine.py").write_text(INTERRUPTING)
    flags = ("--cluster", "1x8gpu", "--scheduler", "mine.py:Interrupting", "--out", "deep/out")
    stopped = muster_process(command, "trace.csv", *flags, folder=tmp_path)
    assert (stopped.status, stopped.out) == (130, "")
    assert stopped.err == "interrupted; nothing was written\n"
    assert sorted(path.name for path in tmp_path.iterdir()) in (
        ["mine.py", "trace.csv"],
        ["__pycache__", "mine.py", "trace.csv"],
    )
