"""The daemon is killed at random moments: no job is lost, none runs twice, none starts from scratch."""

from __future__ import annotations

import getpass
import os
import random
import select
import signal
import sys
from functools import reduce
from pathlib import Path

import pytest

from muster.service.home import job_folder, make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import State, Submission

from .restless import RESTLESS
from .running import controller_process, wait_until_ended

WITNESS = Path(__file__).with_name("observer_process.py")
STEPS, STEP_SECONDS = 30, 0.05


def expected_sum(steps: int) -> int:
    return reduce(lambda total, batch: (31 * total + batch) % 1_000_003, range(steps), 0)


def submitted(store: Store, home: Path, jobs: int, seconds: float = STEP_SECONDS) -> list[int]:
    requests = [
        JobRequest(
            name=f"witness-{number}",
            command=(sys.executable, str(WITNESS), str(home / f"diary-{number}"), str(STEPS), str(seconds)),
            directory=str(Path.cwd()),
            environment={"PYTHONPATH": str(Path.cwd())},
            steps=STEPS,
            checkpoint_seconds=0.0,
            max_restarts=1000,
        )
        for number in range(jobs)
    ]
    return store.submit([Submission(getpass.getuser(), request) for request in requests])


def check_diaries(
    store: Store, home: Path, jobs: list[int], *, steps_repeated: bool, diaries: Path | None = None
) -> None:
    for number, job in enumerate(jobs):
        row = store.job(job)
        assert row is not None
        output = job_folder(home, job) / "output" / "0.log"
        assert row.state is State.COMPLETED, (row, output.exists() and output.read_text())
        diary = ((diaries or home) / f"diary-{number}").read_text().splitlines()
        assert "twice at once" not in diary
        assert diary[-1] == f"sum {expected_sum(STEPS)}"
        steps = [int(line) for line in diary if line.isdigit()]
        assert sorted(set(steps)) == list(range(STEPS))
        if not steps_repeated:
            assert steps == list(range(STEPS)), "it went back"
        if diaries is None:  # On a full disk there are none.
            assert row.steps_done == STEPS
        starts = diary.count("start")
        assert starts <= row.epoch
        held = store.allocation_intervals(job)
        assert all(interval.until is not None for interval in held)


def some_moments(seed: int, kills: int) -> list[float]:
    chance = random.Random(seed)
    return [chance.uniform(0.0, 0.6) for _ in range(kills)]


@pytest.mark.parametrize("kills", [5, pytest.param(25, marks=pytest.mark.long)])
def test_running_jobs_do_not_notice_that_the_daemon_is_killed(tmp_path: Path, kills: int) -> None:
    make_home(tmp_path)
    store = Store.open(store_url(tmp_path))
    jobs = submitted(store, tmp_path, 3, seconds=STEP_SECONDS * kills)
    for moment in some_moments(1, kills):
        with controller_process(tmp_path, "fifo", 3) as process:
            select.select([], [], [], moment)
            assert process.poll() is None
    with controller_process(tmp_path, "fifo", 3) as process:
        wait_until_ended(store, jobs, process)
    check_diaries(store, tmp_path, jobs, steps_repeated=False)
    for job in jobs:
        row = store.job(job)
        assert row is not None
        assert row.epoch == 1, "it was started again"
    store.close()


@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.long)])
def test_a_scheduler_that_preempts_is_killed_again_and_again(tmp_path: Path, kills: int) -> None:
    make_home(tmp_path)
    store = Store.open(store_url(tmp_path))
    jobs = submitted(store, tmp_path, 5, seconds=STEP_SECONDS * kills / 5)
    for moment in some_moments(2, kills):
        with controller_process(tmp_path, RESTLESS, 2):
            select.select([], [], [], 4 * moment)
    with controller_process(tmp_path, RESTLESS, 2) as process:
        wait_until_ended(store, jobs, process)
    check_diaries(store, tmp_path, jobs, steps_repeated=False)
    store.close()


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.long)])
def test_processes_of_jobs_are_killed(tmp_path: Path, kills: int) -> None:
    make_home(tmp_path)
    store = Store.open(store_url(tmp_path))
    jobs = submitted(store, tmp_path, 2, seconds=STEP_SECONDS * kills)
    chance = random.Random(3)
    with controller_process(tmp_path, "fifo", 2) as process:
        for _ in range(kills):
            select.select([], [], [], chance.uniform(0.5, 1.5))
            alive = [pid for job in jobs for pid in processes_of(job_folder(tmp_path, job) / "run")]
            if alive:
                os.kill(chance.choice(alive), signal.SIGKILL)
        wait_until_ended(store, jobs, process)
    check_diaries(store, tmp_path, jobs, steps_repeated=True)
    store.close()


def processes_of(run_dir: Path) -> list[int]:
    """Processes that were started with this run folder, and the supervisor of them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if f"MUSTER_RUN_DIR={run_dir}\0".encode() in environment + b"\0":
            found.append(int(folder.name))
    return sorted(found)
