"""Interrupted runs end where uninterrupted ones do, to the last bit; real processes, real signals."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import numpy as np
import pytest

from muster.training.run_folder import (
    EXIT_STOPPED,
    RunFolder,
    Stale,
    begin_start,
    give_notice,
    read_progress,
)
from tests.training.starting import alone, begin, let_step, next_step, outcome, run, start, variables

JOB = "numpy_job.py"
STEPS = 21


@pytest.fixture(scope="module")
def uninterrupted() -> str:
    return run(JOB, env=alone())


def checkpoints(run_dir: Path) -> list[Path]:
    return sorted((run_dir / "checkpoints").glob("step-*"))


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
    assert not list((tmp_path / "checkpoints").glob("*.part"))


@pytest.mark.parametrize("step", [1, 2, 8, 14, 21])
def test_killed_while_a_checkpoint_is_written(tmp_path: Path, uninterrupted: str, step: int) -> None:
    run(JOB, "--die-in-save", step, env=begin(tmp_path, 1), status=-signal.SIGKILL)
    assert list((tmp_path / "checkpoints").glob("*.part"))
    (tmp_path / "1-17.part").write_text("a report")
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
    assert checkpoints(tmp_path) == [saved]
    assert read_progress(tmp_path) is None
    assert not list((tmp_path / "checkpoints").glob("*.part"))


def test_a_stale_report_is_not_published(tmp_path: Path) -> None:
    begin_start(tmp_path, 1)
    old = RunFolder(tmp_path, 1)
    old.report({"step": 3})
    begin_start(tmp_path, 2)
    with pytest.raises(Stale):
        old.report({"step": 4})
    assert read_progress(tmp_path) == {"epoch": 1, "step": 3}
    assert not list(tmp_path.glob("*.part"))


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
    kept = checkpoints(tmp_path)
    assert run("on_a_small_disk.py", JOB, env=begin(tmp_path, 2)) == uninterrupted
    assert checkpoints(tmp_path) == kept
    assert not list((tmp_path / "checkpoints").glob("*.part"))
    progress = read_progress(tmp_path)
    assert progress is not None
    assert progress["checkpoint_step"] == 4
    assert "no checkpoint at step" in progress["problems"][-1]
    assert run(JOB, env=begin(tmp_path, 3)) == uninterrupted
    assert len(checkpoints(tmp_path)) == 2
