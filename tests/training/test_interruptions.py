"""Interrupted runs end where uninterrupted ones do, to the last bit; real processes, real signals."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from muster.training.run_folder import (
    EXIT_STOPPED,
    RunFolder,
    Stale,
    begin_start,
    checkpoint_folder,
    give_notice,
    newest_start,
    read_progress,
)
from tests.training.starting import alone, begin, let_step, next_step, outcome, run, start, variables

JOB = "numpy_job.py"
STEPS = 21


@pytest.fixture(scope="module")
def uninterrupted() -> str:
    return run(JOB, env=alone())


def checkpoints(run_dir: Path) -> list[Path]:
    """Of the newest start."""
    newest = newest_start(run_dir)
    return [] if newest is None else sorted(checkpoint_folder(run_dir, newest).glob("step-*"))


def test_alone_and_scheduled_give_the_same(tmp_path: Path, uninterrupted: str) -> None:
    assert run(JOB, env=begin(tmp_path, 1)) == uninterrupted
    progress = read_progress(tmp_path)
    assert progress is not None
    assert (progress["state"], progress["step"], progress["checkpoint_step"]) == ("trained", STEPS, STEPS)
    assert progress["epoch"] == 1
    assert [path.name[:17] for path in checkpoints(tmp_path)] == ["step-000000000020", "step-000000000021"]


def test_a_start_after_the_last_step_repeats_no_step(tmp_path: Path, uninterrupted: str) -> None:
    run(JOB, env=begin(tmp_path, 1))
    assert run(JOB, env=begin(tmp_path, 2)) == uninterrupted
    last = checkpoints(tmp_path)[-1].stat().st_mtime_ns
    again = start(JOB, env=begin(tmp_path, 3))
    output, _ = again.communicate(timeout=60)
    assert output.splitlines() == [uninterrupted]
    assert checkpoints(tmp_path)[-1].stat().st_mtime_ns == last


@pytest.mark.parametrize("way", ["notice", "SIGTERM"])
def test_stopped_by_notice_and_started_again(tmp_path: Path, uninterrupted: str, way: str) -> None:
    epoch, done = 0, 0
    for epoch, steps in enumerate((3, 4, 1), start=1):
        # Saves only what it is asked for: the notice alone makes the checkpoint.
        job = start(JOB, "--gated", env=begin(tmp_path, epoch, MUSTER_CHECKPOINT_SECONDS="1000"))
        for _ in range(steps - 1):
            next_step(job)
            let_step(job)
        assert next_step(job) == done + steps - 1
        if way == "notice":
            give_notice(tmp_path, epoch, stop=True)
        else:
            job.send_signal(signal.SIGTERM)
        let_step(job)
        outcome(job, status=EXIT_STOPPED)
        done += steps
        progress = read_progress(tmp_path)
        assert progress is not None
        assert (progress["state"], progress["step"], progress["checkpoint_step"]) == ("stopped", done, done)
    assert run(JOB, env=begin(tmp_path, epoch + 1)) == uninterrupted


def test_a_notice_to_an_older_start_is_void(tmp_path: Path, uninterrupted: str) -> None:
    give_notice(tmp_path, 1, stop=True)
    assert run(JOB, env=begin(tmp_path, 2)) == uninterrupted


def test_killed_at_random_moments(tmp_path: Path, uninterrupted: str) -> None:
    rng = np.random.default_rng(17)
    epoch, done = 0, 0
    while done < STEPS - 4:
        epoch += 1
        job = start(JOB, "--gated", env=begin(tmp_path, epoch))
        for _ in range(int(rng.integers(1, 4))):
            done = next_step(job)
            let_step(job)
        # A step with its checkpoint takes some milliseconds; waiting this way reaches any moment of it.
        until = time.perf_counter() + rng.uniform(0, 0.01)
        while time.perf_counter() < until:
            pass
        job.kill()
        outcome(job, status=-signal.SIGKILL)
        assert len(checkpoints(tmp_path)) <= 3
    assert run(JOB, env=begin(tmp_path, epoch + 1)) == uninterrupted
    assert len(checkpoints(tmp_path)) == 2
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("step", [1, 2, 8, 14, 21])
def test_killed_while_a_checkpoint_is_written(tmp_path: Path, uninterrupted: str, step: int) -> None:
    run(JOB, "--die-in-save", step, env=begin(tmp_path, 1), status=-signal.SIGKILL)
    assert list(checkpoint_folder(tmp_path, 1).glob("*.part"))
    (tmp_path / "18.part").write_text("the scheduler's notice, on its way")
    assert run(JOB, env=begin(tmp_path, 2)) == uninterrupted
    assert [path.name for path in tmp_path.rglob("*.part")] == ["18.part"]


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    tmp_path: Path, uninterrupted: str, damage: str
) -> None:
    run(JOB, "--die-in-save", 12, env=begin(tmp_path, 1), status=-signal.SIGKILL)
    _, newest = checkpoints(tmp_path)
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes({"cut": bytes(content[:-1]), "changed": bytes(content), "empty": b""}[damage])
    job = start(JOB, env=begin(tmp_path, 2))
    output, errors = job.communicate(timeout=60)
    assert output.splitlines()[0] == "10", (
        "step 11 (its number printed before it is done is 10) is done again"
    )
    assert output.splitlines()[-1] == uninterrupted
    assert "checkpoint of step 11 is damaged" in errors
    progress = read_progress(tmp_path)
    assert progress is not None
    assert any("damaged" in problem for problem in progress["problems"])


def test_a_stale_process_can_neither_report_nor_save(tmp_path: Path) -> None:
    job = start(JOB, "--gated", env=begin(tmp_path, 1))
    next_step(job)
    let_step(job)
    next_step(job)
    begin_start(tmp_path, 2)
    (saved,) = checkpoints(tmp_path)
    let_step(job)
    output, errors = job.communicate(timeout=60)
    assert (output, job.returncode) == ("", 1)
    assert "start 1 of this job is over, start 2 has begun" in errors
    assert [path.name for path in checkpoints(tmp_path)] == [saved.name]
    assert read_progress(tmp_path) is None
    assert newest_start(tmp_path) == 2
    assert not list(tmp_path.rglob("*.part"))


def test_a_stale_report_is_not_published(tmp_path: Path) -> None:
    begin_start(tmp_path, 1)
    old = RunFolder(tmp_path, 1)
    old.report({"step": 3})
    begin_start(tmp_path, 2)
    with pytest.raises(Stale):
        old.report({"step": 4})
    assert read_progress(tmp_path) is None
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("cached", [False, True])
def test_a_process_stopped_as_it_publishes_is_no_part(
    tmp_path: Path, uninterrupted: str, cached: bool
) -> None:
    """As on a node that is cut off: nothing waits for it, and what it writes later is never read.

    `cached`: its node still sees its folder, as a client of a network disk may.
    """
    run(JOB, "--die-in-save", 8, env=begin(tmp_path, 1), status=-signal.SIGKILL)
    late = subprocess.Popen([sys.executable, "-c", LATE, tmp_path, str(int(cached))], stderr=subprocess.PIPE)
    os.waitid(os.P_PID, late.pid, os.WSTOPPED)
    begin_later = [sys.executable, "-c", BEGIN, str(tmp_path), "2"]
    subprocess.run(begin_later, timeout=30, check=True)
    late.send_signal(signal.SIGCONT)
    _, errors = late.communicate(timeout=60)
    assert b"start 1 of this job is over, start 2 has begun" in errors
    assert (late.returncode, newest_start(tmp_path)) == (1, 2)
    assert run(JOB, env=begin(tmp_path, 3)) == uninterrupted
    assert not list(tmp_path.rglob("step-000000000099-*"))


LATE = """
import os, signal, sys
from muster.training.run_folder import RunFolder
from pathlib import Path
folder = RunFolder(Path(sys.argv[1]), 1)
with folder.publishing():
    os.kill(os.getpid(), signal.SIGSTOP)
    if sys.argv[2] == "1":
        folder.checkpoints.mkdir(exist_ok=True)
    (folder.checkpoints / f"step-000000000099-{64 * '0'}.pickle").write_bytes(b"late")
folder.report({"step": 99})
"""
BEGIN = """
import sys
from pathlib import Path
from muster.training.run_folder import begin_start
begin_start(Path(sys.argv[1]), int(sys.argv[2]))
"""


def test_ranks_that_begin_together_begin_one_start(tmp_path: Path, uninterrupted: str) -> None:
    run(JOB, "--die-in-save", 8, env=begin(tmp_path, 1), status=-signal.SIGKILL)
    both = BEGIN.replace("begin_start", "make_older_starts_stale")
    ranks = [subprocess.Popen([sys.executable, "-c", both, tmp_path, "2"]) for _ in range(4)]
    assert [rank.wait(60) for rank in ranks] == [0, 0, 0, 0]
    assert not list(tmp_path.rglob("*.part"))
    assert run(JOB, env=variables(tmp_path, 2)) == uninterrupted


def test_a_disk_without_second_names_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(JOB, "--die-in-save", 8, env=begin(tmp_path, 1), status=-signal.SIGKILL)
    before = [(path.name, path.read_bytes()) for path in checkpoints(tmp_path)]

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no second names")

    monkeypatch.setattr(os, "link", refuse)
    begin_start(tmp_path, 2)
    assert [(path.name, path.read_bytes()) for path in checkpoints(tmp_path)] == before


def test_a_stale_start_ends_before_its_first_step(tmp_path: Path) -> None:
    begin_start(tmp_path, 1)
    begin_start(tmp_path, 2)
    job = start(JOB, env=variables(tmp_path, 1))
    output, errors = job.communicate(timeout=60)
    assert (output, job.returncode) == ("", 1)
    assert "start 2 has begun" in errors


def test_a_full_disk_costs_checkpoints_and_not_the_run(tmp_path: Path, uninterrupted: str) -> None:
    """The limit on file size stands for the disk: a write fails midway, as it does on a full one."""
    run(JOB, "--die-in-save", 5, env=begin(tmp_path, 1), status=-signal.SIGKILL)
    kept = [path.name for path in checkpoints(tmp_path)]
    assert run("on_a_small_disk.py", JOB, env=begin(tmp_path, 2)) == uninterrupted
    assert [path.name for path in checkpoints(tmp_path)] == kept
    assert not list(tmp_path.rglob("*.part"))
    progress = read_progress(tmp_path)
    assert progress is not None
    assert progress["checkpoint_step"] == 4
    assert "no checkpoint at step" in progress["problems"][-1]
    assert run(JOB, env=begin(tmp_path, 3)) == uninterrupted
    assert len(checkpoints(tmp_path)) == 2
