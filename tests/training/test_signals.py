"""What SIGTERM means to the processes of a job: to the main one, to its helpers, and afterwards."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from muster import training
from muster.problems import InputError
from muster.training.run_folder import EXIT_STOPPED, give_notice, read_progress
from muster.training.stopping import follow_parent_only, held_up
from tests.training.starting import alone, begin, outcome, start

Become = Callable[..., None]


def test_a_pool_of_the_job_ends_as_ever(tmp_path: Path) -> None:
    """Its workers are forked from a process that only notes SIGTERM, by which a Pool ends them."""
    job = start("helpers_job.py", "pool", env=begin(tmp_path, 1))
    assert outcome(job) == "[0, 1, 4]"


@pytest.mark.needs_torch
@pytest.mark.parametrize("way", ["persistent", "once"])
def test_a_job_that_fails_is_not_held_up_by_its_loader(tmp_path: Path, way: str) -> None:
    """Its workers wait for more, and what failed keeps the loader alive."""
    pytest.importorskip("torch")
    job = start("helpers_job.py", "fail", way, env=alone())
    _, errors = job.communicate(timeout=60)
    assert (job.returncode, "the job fails" in errors) == (1, True)


def helper(ready: int) -> None:
    follow_parent_only()
    os.write(ready, b".")
    signal.pause()


def test_a_helper_ends_by_its_parents_signal_alone() -> None:
    pipe, ready = os.pipe()
    with held_up():
        process = multiprocessing.get_context("fork").Process(target=helper, args=(ready,))
        process.start()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGTERM)
    # Sent by this very process before the helper had said who counts: it ends by that, too.
    process.join(30)
    assert process.exitcode == 0
    process = multiprocessing.get_context("fork").Process(target=helper, args=(ready,))
    process.start()
    os.read(pipe, 1)
    outsider = [sys.executable, "-c", f"import os; os.kill({process.pid}, 15)"]
    assert os.spawnv(os.P_WAIT, sys.executable, outsider) == 0
    process.join(0.5)
    assert process.is_alive()
    process.terminate()
    process.join(30)
    assert process.exitcode == 0


def test_a_loop_that_is_left_gives_the_signal_back(as_start: Become, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    as_start(1)
    run = training.join()
    assert signal.getsignal(signal.SIGTERM) != before
    for _ in run.steps([1, 2, 3], state={}):
        break
    assert signal.getsignal(signal.SIGTERM) == before
    assert read_progress(tmp_path) is None, "leaving alone does not say that it is done"

    def failing() -> None:
        for _ in training.join().steps([1, 2, 3], state={}):
            raise RuntimeError("the job fails")

    as_start(2)
    with pytest.raises(RuntimeError, match="the job fails"):
        failing()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("leaves", [True, False])
def test_early_stopping_is_an_end(as_start: Become, tmp_path: Path, leaves: bool) -> None:
    seen: dict[str, list[int]] = {"all": []}
    before = signal.getsignal(signal.SIGTERM)
    as_start(1)
    run = training.join()
    for number in run.steps([0, 1, 2, 3], state={"seen": seen}, epochs=2):
        seen["all"].append(number)
        if run.step == 5:
            run.finish()
            if leaves:
                break
    run.finish()
    assert seen["all"] == [0, 1, 2, 3, 0, 1]
    assert signal.getsignal(signal.SIGTERM) == before
    progress = read_progress(tmp_path)
    assert progress is not None
    assert (progress["state"], progress["step"], progress["checkpoint_step"]) == ("trained", 6, 6)
    # Its start was killed before the script had ended: there is nothing left to do, and its state is there.
    as_start(2)
    seen = {"all": []}
    assert list(training.join().steps([0, 1, 2, 3], state={"seen": seen}, epochs=2)) == []
    assert seen["all"] == [0, 1, 2, 3, 0, 1]
    as_start(3)
    assert list(training.join().steps([0, 1, 2, 3], state={"seen": seen}, epochs=2)) == []


def test_finish_needs_a_beginning() -> None:
    with pytest.raises(InputError, match=r"nothing to end before run\.steps"):
        training.join().finish()


def test_gradients_are_accumulated_before_a_stop(as_start: Become, tmp_path: Path) -> None:
    """The job stops, and saves, only where the optimizer has stepped: every third batch and the epoch's last."""
    batches, seen = list(range(7)), []
    whole = [(number, number in (2, 5, 6)) for number in batches] * 2

    def walk(epoch: int, step: int) -> None:
        run = training.join()
        for number in run.steps(batches, state={}, epochs=3, accumulate=3):
            seen.append((number, run.ends_update))
            if run.step == step:
                give_notice(tmp_path, epoch, stop=True)

    epoch = 0
    for step in (0, 4, 6, 13):
        epoch += 1
        as_start(epoch, checkpoint_seconds=0.0)
        with pytest.raises(SystemExit) as stopped:
            walk(epoch, step)
        assert stopped.value.code == EXIT_STOPPED
        progress = read_progress(tmp_path)
        assert progress is not None
        assert progress["step"] == progress["checkpoint_step"]
        assert progress["step"] in (3, 6, 7, 10, 13, 14)
    assert seen == whole
    as_start(epoch + 1)
    with pytest.raises(InputError, match="accumulate: found 2; the checkpoint was made with 3"):
        next(training.join().steps(batches, state={}, epochs=3, accumulate=2))
    with pytest.raises(InputError, match="accumulate: found 0"):
        training.join().steps(batches, state={}, accumulate=0)
