"""What becomes of a job of which a start has ended, by how it ended and by what was wanted of it."""

from __future__ import annotations

import getpass
import os
import select
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from muster.formatting import duration
from muster.service.controller import Controller
from muster.service.controller.exit_status import outcome, pause_seconds
from muster.service.controller.starts import JobStart
from muster.service.daemon_status import DaemonStatus
from muster.service.engines import Exit, Observed
from muster.service.engines.local.engine import LocalEngine
from muster.service.home import job_folder, make_home, store_url
from muster.service.live_scheduler import live_scheduler
from muster.service.machine import find_machine
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import JobRow, State, StateRequest, Submission

BEGAN, NOTICE, END = 100.0, 150.0, 160.0


@dataclass(frozen=True)
class Ended:
    """How a start of a job ended, and what had happened to the job before."""

    steps: int | None = None
    done: float = 0.0
    state_request: StateRequest | None = None
    asked: bool = True
    joined: bool = False
    seen: float = 149.9
    until: float = END
    deaths: int = 0
    max_restarts: int = 3
    message: str = ""
    status: int | None = 0
    limit: float | None = None
    ran: float = 0.0

    def job(self) -> JobRow:
        request = JobRequest(
            name="job",
            command=("true",),
            directory="/",
            steps=self.steps,
            max_restarts=self.max_restarts,
            time_limit_seconds=self.limit,
        )
        return JobRow(
            1,
            "ann",
            request,
            0.0,
            state_request=self.state_request,
            steps_done=self.done,
            deaths=self.deaths,
            run_seconds=self.ran,
        )

    def start(self) -> JobStart:
        notice_at = NOTICE if self.asked else None
        return JobStart(1, 1, (), BEGAN, 10.0, seen=self.seen, joined=self.joined, notice_at=notice_at)


def becomes(ended: Exit, **what: Any) -> tuple[State, int, bool, str]:
    """What a job becomes after a start that ended so; `what`: fields of `Ended`."""
    case = Ended(**what)
    observed = Observed(1, 1, ended, case.until, case.status, case.message)
    after = outcome(case.job(), case.start(), observed, case.until)
    return after.state, after.deaths, after.failed_to_run, after.message


@pytest.mark.parametrize(
    ("ended", "what", "state"),
    [
        (Exit.STOPPED, {"limit": 60.0}, State.TIMED_OUT),
        (Exit.STOPPED, {"limit": 61.0}, State.QUEUED),
        (Exit.STOPPED, {"limit": 90.0, "ran": 30.0}, State.TIMED_OUT),
        (Exit.KILLED, {"limit": 60.0}, State.TIMED_OUT),
        (Exit.LOST, {"limit": 60.0, "asked": False}, State.TIMED_OUT),
        (Exit.COMPLETED, {"limit": 60.0, "asked": False}, State.COMPLETED),
        (Exit.COMPLETED, {"limit": 60.0}, State.TIMED_OUT),
        (Exit.FAILED, {"limit": 60.0, "asked": False}, State.FAILED),
        (Exit.STOPPED, {"limit": 60.0, "state_request": StateRequest.CANCEL}, State.CANCELLED),
    ],
)
def test_a_job_is_ended_at_its_time_limit(ended: Exit, what: dict[str, object], state: State) -> None:
    after = becomes(ended, **what)
    assert after[0] is state
    if state is State.TIMED_OUT:
        assert after[3] == f"its time limit of {duration(what['limit'])} is over"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("what", "state"),
    [
        ({"asked": False}, State.COMPLETED),
        ({"asked": False, "steps": 90, "done": 30.0}, State.COMPLETED),
        ({}, State.QUEUED),
        ({"steps": 90, "done": 30.0}, State.QUEUED),
        ({"steps": 90, "done": 90.0}, State.COMPLETED),
        ({"joined": True, "steps": 90, "done": 88.0}, State.COMPLETED),
        ({"state_request": StateRequest.CANCEL}, State.CANCELLED),
        ({"state_request": StateRequest.CANCEL, "steps": 90, "done": 90.0}, State.COMPLETED),
        ({"state_request": StateRequest.HOLD}, State.HELD),
        ({"until": 149.95}, State.COMPLETED),
        ({"until": 120.0}, State.QUEUED),
        ({"until": 149.95, "seen": -1.0}, State.COMPLETED),
    ],
    ids=str,
)
def test_to_end_with_0_after_a_notice_is_not_to_be_done(what: dict[str, object], state: State) -> None:
    """The last three: it ended just before the notice; a clock was set back; it was over at the first look."""
    assert becomes(Exit.COMPLETED, **what)[0] is state


def test_a_failure_after_a_notice_is_the_notices() -> None:
    assert becomes(Exit.FAILED, status=1)[0] is State.QUEUED
    assert becomes(Exit.FAILED, status=1, asked=False) == (State.FAILED, 0, False, "it ended with status 1")
    assert becomes(Exit.FAILED, status=1, until=149.95)[0] is State.FAILED


def test_deaths_in_a_row_are_counted_and_the_last_is_reported() -> None:
    def dies(**what: object) -> tuple[State, int, bool, str]:
        return becomes(Exit.KILLED, asked=False, status=-9, message="by SIGKILL", **what)

    assert dies(deaths=2) == (State.QUEUED, 3, True, "")
    words = "by SIGKILL; it has died 4 times without progress in between; max_restarts is 3"
    assert dies(deaths=3) == (State.FAILED, 4, False, words)
    assert dies(deaths=3, done=11.0) == (State.QUEUED, 1, True, "")
    assert dies(deaths=3, until=BEGAN + 600) == (State.QUEUED, 1, True, ""), "ten minutes are progress"
    assert dies(max_restarts=0) == (State.FAILED, 1, False, "by SIGKILL; max_restarts is 0")


def test_what_the_machine_did_is_no_death() -> None:
    assert becomes(Exit.LOST, asked=False, deaths=3) == (State.QUEUED, 3, True, "")
    assert becomes(Exit.LOST, asked=False, state_request=StateRequest.HOLD)[0] is State.HELD
    assert [pause_seconds(failures) for failures in (1, 2, 3, 7, 10**6)] == [1, 2, 4, 60, 60]


SAVES_ON_SIGTERM = """
import os, signal, sys, time
def save(*_):
    open(sys.argv[1], "w").write("30")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
if os.path.exists(sys.argv[1]): sys.exit(0)
print("up", flush=True)
time.sleep(600)
"""


class RealJob:
    """A job on this machine, under a controller of its own."""

    def __init__(self, home: Path, *command: str, **fields: object) -> None:
        make_home(home)
        self.store = Store.open(store_url(home))
        machine = find_machine(gpus=2, cpus=1.0, memory_gb=1.0)
        engine = LocalEngine(home / "engine", machine)
        status = DaemonStatus(
            policy=live_scheduler("fifo", {}, 60.0),
            engine="local",
            engine_capabilities=engine.capabilities,
            enforces=engine.enforces,
            cluster=machine.cluster,
            models=dict,
            round_seconds=60.0,
        )
        self.controller = Controller(self.store, engine, status, home)
        self.controller.recover()
        asked = {"name": "job", "command": command, "directory": os.fspath(home), **fields}
        request = JobRequest.model_validate(asked)
        (self.number,) = self.store.submit([Submission(getpass.getuser(), request)])

    def turns_until(self, state: State) -> JobRow:
        deadline = time.monotonic() + 60.0
        while (row := self.store.job(self.number)) is None or row.state is not state:
            assert time.monotonic() < deadline, row
            self.controller.turn()
            select.select([], [], [], 0.05)
        return row


@pytest.mark.parametrize("requested", [StateRequest.HOLD, StateRequest.CANCEL])
def test_a_stopped_script_that_exits_with_0_is_not_completed(tmp_path: Path, requested: StateRequest) -> None:
    """A real one on this machine: held, released, it ends by itself; or it is cancelled."""
    job = RealJob(tmp_path, sys.executable, "-I", "-S", "-c", SAVES_ON_SIGTERM, str(tmp_path / "saved"))
    job.turns_until(State.RUNNING)
    output = job_folder(tmp_path, job.number) / "output" / "0.log"
    while not (output.exists() and output.read_text()):
        job.controller.turn()
    job.store.request_state(job.number, requested)
    if requested is StateRequest.HOLD:
        assert job.turns_until(State.HELD).finished is None
        job.store.request_state(job.number, StateRequest.RELEASE)
        assert job.turns_until(State.COMPLETED).epoch == 2
        kinds = [event.kind for event in job.store.events(job.number)]
        assert kinds.count("completed") == 1
    else:
        assert job.turns_until(State.CANCELLED).epoch == 1
    assert (tmp_path / "saved").read_text() == "30"
    job.store.close()


@pytest.mark.parametrize(
    ("source", "status"), [('if [ "$RANK" = 1 ]; then exit 7; fi; exec sleep 600', 7), ("exit 0", 0)]
)
def test_the_process_that_failed_is_on_record(tmp_path: Path, source: str, status: int) -> None:
    job = RealJob(tmp_path, "sh", "-c", source, gpus=2, ranks="per-gpu")
    row = job.turns_until(State.FAILED if status else State.COMPLETED)
    assert (row.status, row.failed_rank) == (status, 1 if status else None)
    job.store.close()
