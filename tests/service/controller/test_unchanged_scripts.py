"""Real processes under the default scheduler: the reproductions that once made no progress, all times divided."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.interruptions import START_UPS, simulated
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.service.home import make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import JobRow, State, Submission

from .running import controller_process, wait_until_ended

JOB = Path(__file__).parents[3] / "benchmarks" / "fidelity" / "job.py"


def run(home: Path, commands: Sequence[Sequence[str]], turn: float, restart_cost: float) -> list[JobRow]:
    """These jobs on one GPU, to their ends."""
    make_home(home)
    store = Store.open(store_url(home))
    requests = [
        JobRequest(
            name=f"job-{number}",
            command=(sys.executable, *command),
            directory=str(Path.cwd()),
            environment={"PYTHONPATH": str(Path.cwd())},
        )
        for number, command in enumerate(commands)
    ]
    with controller_process(home, DEFAULT_SCHEDULER, 1, turn=turn, restart_cost=restart_cost) as process:
        jobs = store.submit([Submission(getpass.getuser(), request) for request in requests])
        wait_until_ended(store, jobs, process)
    rows = [row for job in jobs if (row := store.job(job))]
    store.close()
    assert [row.state for row in rows] == [State.COMPLETED] * len(commands)
    return rows


def test_three_scripts_in_short_turns_start_once_each(tmp_path: Path) -> None:
    """12 s of work in turns of 5 s, divided by 10; nothing is saved."""
    script = ("-c", "import time; time.sleep(1.2)")
    rows = run(tmp_path, [script] * 3, turn=0.5, restart_cost=6.0)
    assert [row.epoch for row in rows] == [1, 1, 1]


def test_jobs_with_a_long_start_up_get_on(tmp_path: Path) -> None:
    """75 s of start-up in turns of 60 s, divided by 50, with 150 s of work: no GPU time goes into restarts."""
    rows = run(
        tmp_path,
        [(str(JOB), str(tmp_path / f"diary-{number}"), "30", "0.1", "1.5") for number in range(3)],
        turn=1.2,
        restart_cost=1.2,
    )
    assert all(row.joined for row in rows)
    held = sum(row.run_seconds for row in rows)
    again = sum(row.restart_seconds - (row.start_up_seconds or 0.0) for row in rows)
    assert again <= 0.1 * held


@pytest.mark.long
@pytest.mark.parametrize("start_up", START_UPS)
@pytest.mark.parametrize("turn", [10.0, 60.0])
def test_the_default_scheduler_loses_little_to_restarts(start_up: float, turn: float) -> None:
    """The bars of the benchmark, on one seed."""
    found = simulated(1, start_up, turn, DEFAULT_SCHEDULER)
    fifo = simulated(1, start_up, turn, "fifo+tune-plus")
    assert found.restart_share <= 0.1
    assert found.most_starts_of_scripts <= 2
    assert found.mean_jct <= 1.1 * fifo.mean_jct
