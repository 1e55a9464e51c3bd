"""Jobs that know nothing of Muster: asked by a signal, read by their output."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.problems import BadInput
from muster.training.unchanged import UnchangedJob

SAVES_ON_USR1 = """
import os, signal, sys
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print("step 12/90", flush=True)
signal.pause()
"""


def test_asked_to_stop_by_its_own_signal() -> None:
    job = UnchangedJob(stop_signal="SIGUSR1")
    with subprocess.Popen(
        [sys.executable, "-c", SAVES_ON_USR1], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "step 12/90\n"
        assert job.ask_to_stop(process.pid)
        assert process.stdout.read() == "saved\n"
    assert process.returncode == 0
    assert not job.ask_to_stop(process.pid)


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 80), max_size=6),
    steps=st.lists(st.integers(0, 10**6), min_size=1, max_size=8),
)
def test_output_read_in_pieces_tells_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], steps: list[int]
) -> None:
    """However a growing file is cut, the last step is that of its last whole line."""
    output = tmp_path_factory.getbasetemp() / "output.log"
    job = UnchangedJob(progress=r"step (?P<step>\d+)")
    text = "".join(f"loss 0.1 step {step}" + "\n\r"[step % 2] for step in steps).encode()
    offset, told = 0, None
    for end in [*sorted(min(cut, len(text)) for cut in cuts), len(text)]:
        output.write_bytes(text[:end])
        step, offset = job.read_progress(output, offset)
        told = told if step is None else step
    assert (told, offset) == (steps[-1], len(text))


def test_odd_output(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_bytes(b"\xff\xfe step 7\nstep x\nnothing\nstep 99")
    assert UnchangedJob(progress=r"step (?P<step>\S+)").read_progress(output) == (7, 25)
    assert UnchangedJob().read_progress(output, 5) == (None, 5)


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(BadInput) as refused:
        UnchangedJob(stop_signal="SIGKILL", progress="step (")
    assert [problem.column for problem in refused.value.problems] == ["stop_signal", "progress"]
    with pytest.raises(BadInput, match="a group named step"):
        UnchangedJob(progress=r"step (\d+)")
    assert UnchangedJob().stop_signal == signal.SIGTERM.name
