"""Jobs that know nothing of Muster: asked by a signal, read by their output."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.problems import InputError
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
def test_output_read_in_pieces_gives_the_same(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], steps: list[int]
) -> None:
    """However a growing file is cut, the last step is that of its last whole line."""
    output = tmp_path_factory.getbasetemp() / "output.log"
    job = UnchangedJob(progress=r"step (?P<step>\d+)")
    text = "".join(f"loss 0.1 step {step}" + "\n\r"[step % 2] for step in steps).encode()
    offset, reply = 0, None
    for end in [*sorted(min(cut, len(text)) for cut in cuts), len(text)]:
        output.write_bytes(text[:end])
        step, offset = job.read_progress(output, offset)
        reply = reply if step is None else step
    assert (reply, offset) == (steps[-1], len(text))


def test_odd_output(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_bytes(b"\xff\xfe step 7\nstep x\nnothing\nstep 99")
    assert UnchangedJob(progress=r"step (?P<step>\S+)").read_progress(output) == (7, 25)
    assert UnchangedJob().read_progress(output, 5) == (None, 5)


def test_of_much_output_the_last_megabyte_is_read(tmp_path: Path) -> None:
    """Its first line was cut off, and a line without end is not read again and again from its beginning."""
    output = tmp_path / "output.log"
    output.write_bytes(b"step 1\n" + b"x" * 2_000_000 + b" step 2")
    job = UnchangedJob(progress=r"(?P<step>\d+)$")
    assert job.read_progress(output) == (None, 0), "no whole line"
    with output.open("ab") as more:
        more.write(b"34\n")
    assert job.read_progress(output) == (None, output.stat().st_size), "34 is the end of a longer line"
    with output.open("ab") as more:
        more.write(b"5\n" + b"noise\n" * 100)
    assert job.read_progress(output) == (5, output.stat().st_size)


def test_the_search_ends_and_skips_what_was_passed_over(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_bytes(b"step 3\n" * 1000)
    searched = []

    def slow(_expression: str, line: str) -> None:
        searched.append(line)

    size = output.stat().st_size
    job = UnchangedJob(progress=r"(?P<step>\d+)")
    assert job.read_progress(output, 0, slow, seconds=0.0) == (None, size)
    assert len(searched) == 1
    assert job.read_progress(output, size, slow) == (None, size)


def test_output_that_was_emptied_is_read_from_its_beginning(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_bytes(b"step 7\n")
    assert UnchangedJob(progress=r"step (?P<step>\d+)").read_progress(output, 5000) == (7, 7)


def test_a_group_may_match_nothing_or_no_number(tmp_path: Path) -> None:
    output = tmp_path / "output.log"
    output.write_text("step 5\nstep " + 5000 * "9" + "\ndone\n")
    assert UnchangedJob(progress=r"step (?P<step>\d+)|done").read_progress(output)[0] == 5


def test_all_mistakes_are_raised_together() -> None:
    with pytest.raises(InputError) as refused:
        UnchangedJob(stop_signal="SIGKILL", progress="step (")
    assert [problem.column for problem in refused.value.problems] == ["stop_signal", "progress"]
    with pytest.raises(InputError, match="a group named step"):
        UnchangedJob(progress=r"step (\d+)")
    assert UnchangedJob().stop_signal == signal.SIGTERM.name
