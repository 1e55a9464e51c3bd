"""What an interruption of a job costs: measured at its starts, kept over daemons, charged to what it lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Jobs
from muster.schedulers.interruption import WORK_PER_INTERRUPTION
from muster.service.controller.interruptions import (
    LONGEST_START_UP,
    RestartCosts,
    lost_seconds,
    measured_stop,
)
from muster.service.controller.starts import JobStart
from muster.service.engines import Report
from muster.service.engines.fake import Pace
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow, State, StateRequest, Submission
from muster.workload.models import synergy_models

from .test_fake_nodes import World

BEGAN, FIRST_STEP, ASKED, END = 100.0, 130.0, 190.0, 200.0
RESNET = next(iter(synergy_models().values()))


def row(joined: bool = False, **fields: object) -> JobRow:
    request = JobRequest(name="job", command=("true",), directory="/", **fields)  # type: ignore[arg-type]
    return JobRow(1, "ann", request, 0.0, joined=joined)


def a_start(first_step: float | None = FIRST_STEP, asked: float | None = ASKED) -> JobStart:
    return JobStart(1, 1, (), BEGAN, 0.0, first_step=first_step, notice_at=asked, stop_sent=asked)


@pytest.mark.parametrize(
    ("job", "start", "ended", "lost"),
    [
        (row(joined=True), a_start(), False, 30 + 10),
        (row(joined=True), a_start(asked=None), True, 30),
        (row(joined=True), a_start(asked=None), False, 30),
        (row(joined=True), a_start(first_step=None), False, 100),
        (row(joined=True), a_start(first_step=195.0), False, 95 + 5),
        (row(), a_start(first_step=None), False, 100),
        (row(), a_start(first_step=None, asked=None), True, 0),
        (row(), a_start(first_step=None), True, 0),
        (row(progress="(?P<step>1)"), a_start(), False, 100),
        (row(progress="(?P<step>1)"), a_start(), True, 30),
        (row(stop_signal="SIGUSR1"), a_start(first_step=None), False, 40),
        (row(stop_signal="SIGUSR1", progress="(?P<step>1)"), a_start(), False, 30 + 10),
    ],
)
def test_lost_time_is_start_up_stop_and_unsaved_work(
    job: JobRow, start: JobStart, ended: bool, lost: float
) -> None:
    assert lost_seconds(job, start, END, expected=40.0, ended=ended) == lost


@pytest.mark.parametrize(
    ("job", "start", "seconds"),
    [
        (row(joined=True), a_start(), 10.0),
        (row(), a_start(first_step=None), 10.0),
        (row(joined=True), a_start(first_step=None), None),
        (row(joined=True), a_start(asked=None), None),
        (row(joined=True), a_start(asked=END + 1), None),
        (row(joined=True), replace(a_start(), notice_at=BEGAN), None),
    ],
)
def test_a_stop_is_measured_where_work_was_saved(job: JobRow, start: JobStart, seconds: float | None) -> None:
    assert measured_stop(job, start, END) == seconds


def test_expected_cost_prefers_the_job_then_its_model() -> None:
    models = {"mine": replace(RESNET, name="mine", restart_seconds=45.0), "other": RESNET}
    costs = RestartCosts(60.0)
    assert costs.expected(row(), models) == 60
    costs.learn([("ann", "job", 7.0), ("bob", "job", 8.0), ("ann", "job", 9.0)])
    assert costs.expected(row(), models) == 9
    assert costs.expected(row(model="Mine"), models) == 45
    assert costs.expected(row(model="other"), models) == 9
    shown = replace(row(model="mine"), start_up_seconds=3.0)
    assert costs.expected(shown, models) == 3
    assert costs.expected(replace(shown, stop_seconds=0.5), models) == 3.5
    costs.learn_from(shown)
    costs.learn_from(row())
    assert costs.expected(row(), models) == 3


def test_the_first_step_is_placed_by_the_reported_speed() -> None:
    start = JobStart(1, 2, (), 100.0, 40.0)
    assert start.first_step_by(Report(50, 2.0), 140.0) == 135
    assert start.first_step_by(Report(50), 140.0) == 140
    assert start.first_step_by(Report(400, 2.0), 140.0) == 100, "not before it began"
    assert start.first_step_by(Report(7), 140.0) == 140, "it went back"


def test_speed_by_steps_alone_leaves_the_start_up_out() -> None:
    start = JobStart(1, 2, (), 100.0, 40.0)
    assert start.steps_per_second(50, 140.0) == 10 / 40
    start.first_report = (140.0, 50)
    assert start.steps_per_second(50, 140.0) == 10 / 40
    assert start.steps_per_second(90, 150.0) == 40 / 10
    assert start.steps_per_second(50, 150.0) == 0


@dataclass(frozen=True)
class Kind:
    """What a job of the fake nodes is like."""

    seconds: float
    start_up: float = 0.0
    saves: bool = True


class Kinds(World):
    """Each job as its name says: one step a second."""

    kinds: Mapping[str, Kind] = {
        "script": Kind(300.0, 30.0, saves=False),
        "trained": Kind(3000.0, 30.0),
        "short": Kind(60.0, 30.0),
    }

    def pace(self, job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
        row = self.store.job(job)
        assert row is not None
        kind = self.kinds[row.request.name]
        return Pace(kind.seconds, 1.0, kind.start_up, kind.saves)

    def submit(self, name: str, count: int = 1, **fields: Any) -> list[int]:
        request = JobRequest(name=name, command=("true",), directory="/", **fields)
        return self.store.submit([Submission("ann", request)] * count)

    def turns(self, seconds: float, apart: float = 1.0) -> None:
        for _ in range(round(seconds / apart)):
            self.turn(apart)

    def row(self, job: int) -> JobRow:
        found = self.store.job(job)
        assert found is not None
        return found

    def facts(self, job: int) -> dict[str, float]:
        """What a scheduler would be shown."""
        fact = self.controller.jobs.columns.status[job]
        jobs = Jobs(self.controller.jobs.columns.table, np.array([job]), self.seconds)
        return {
            "resumes": float(fact["resumes"]),
            "restart_cost": float(fact["restart_cost"]),
            "unsaved_since": float(fact["unsaved_since"]),
            "last_start": float(fact["last_start"]),
            "pinned": bool(jobs.pinned[0]),
            "service": float(jobs.attained_service[0]),
            "cost": float(jobs.interruption_cost[0]),
        }


def test_start_up_and_stop_are_measured_and_kept(tmp_path: Path) -> None:
    world = Kinds(tmp_path, "fifo")
    (job,) = world.submit("trained")
    world.turns(20)
    assert world.facts(job)["resumes"] == 1 + 60, "expected, as long as nothing is known"
    assert not world.row(job).preemptible
    world.turns(40)
    begun = world.row(job)
    assert (begun.joined, begun.preemptible, begun.first_step) == (True, True, 31.0)
    assert (begun.start_up_seconds, world.facts(job)["restart_cost"]) == (30, 30)
    assert np.isnan(world.facts(job)["unsaved_since"])
    world.store.request_state(job, StateRequest.HOLD)
    world.turns(3)
    held = world.row(job)
    assert held.state is State.HELD
    assert held.stop_seconds is not None
    assert held.restart_seconds == pytest.approx(30 + held.stop_seconds)
    world.die()
    world.store.request_state(job, StateRequest.RELEASE)
    world.turns(10)
    assert world.row(job).first_step is None
    expected = 30 + held.stop_seconds
    assert world.facts(job)["resumes"] == world.facts(job)["last_start"] + LONGEST_START_UP * expected
    assert world.facts(job)["restart_cost"] == 30 + held.stop_seconds
    (similar,) = world.submit("trained")
    world.turn(1.0)
    assert world.facts(similar)["restart_cost"] == 30 + held.stop_seconds, "as the other of its name"
    world.store.close()


class HangsLater(Kinds):
    """Jobs that work at their first start, and hang in the start-up of every later one."""

    def pace(self, job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
        pace = super().pace(job, allocations)
        hangs = self.row(job).epoch > 1 and self.row(job).request.name == "trained"
        return replace(pace, start_up_seconds=inf) if hangs else pace


def test_a_hanging_start_up_is_protected_for_a_while_only(tmp_path: Path) -> None:
    """Jobs that reported before and hang now make room for others, without any event but the passing of time."""
    world = HangsLater(tmp_path, "las")
    jobs = world.submit("trained", 4)
    world.turns(60)
    for requested in (StateRequest.HOLD, StateRequest.RELEASE):
        for job in jobs:
            world.store.request_state(job, requested)
        world.turns(5)
    cost = world.facts(jobs[0])["restart_cost"]
    assert 30 <= cost < 35
    shorts = world.submit("short", 4)
    protected = (LONGEST_START_UP + WORK_PER_INTERRUPTION) * cost
    world.turns(protected - 20, apart=5.0)
    assert [world.row(job).state for job in shorts] == [State.QUEUED] * 4
    assert all(world.row(job).first_step is None for job in jobs)
    world.turns(40, apart=5.0)
    assert [world.row(job).state for job in shorts] == [State.RUNNING] * 4
    world.store.close()


def test_reports_that_are_never_found_protect_for_a_while_only(tmp_path: Path) -> None:
    world = Kinds(tmp_path, "fifo")
    (job,) = world.submit("script", progress=r"never (?P<step>\d+)", stop_signal="SIGUSR1")
    world.turns(10)
    assert world.facts(job)["resumes"] == 1 + 60
    assert world.facts(job)["pinned"]
    world.store.close()


def test_a_new_daemon_knows_as_much_of_running_jobs(tmp_path: Path) -> None:
    world = Kinds(tmp_path, "fifo")
    jobs = [*world.submit("trained"), *world.submit("script"), *world.submit("script", preemptible=True)]
    for seconds in (15, 40, 60):
        world.turns(seconds)
        before = [world.facts(job) for job in jobs]
        world.die()
        assert [world.facts(job) for job in jobs] == [pytest.approx(facts, nan_ok=True) for facts in before]
    world.store.close()


def test_an_unchanged_script_is_left_alone_to_its_end(tmp_path: Path) -> None:
    """Whatever comes, and however long it has run: two of four GPUs are its, under turns of 20 s."""
    world = Kinds(tmp_path, "las+tune-plus")
    scripts = world.submit("script", 2) + world.submit("script", 4)
    world.submit("short", 6)
    for _ in range(60):
        world.turn(20.0)
        world.submit("short")
    rows = [world.row(job) for job in scripts]
    assert [(row.state, row.epoch) for row in rows] == [(State.COMPLETED, 1)] * 6
    world.store.close()


def test_work_of_a_script_counts_as_lost_when_it_is_stopped(tmp_path: Path) -> None:
    """What a scheduler expects a stop to cost, and what the stop then has cost."""
    world = Kinds(tmp_path, "las")
    (job,) = world.submit("script", preemptible=True)
    world.turns(200, apart=5.0)
    facts = world.facts(job)
    assert facts["cost"] == pytest.approx(60 + world.seconds - facts["last_start"])
    drain(world, job)
    world.turns(3)
    stopped = world.row(job)
    assert stopped.state is State.QUEUED
    assert stopped.restart_seconds == stopped.run_seconds > 190
    world.store.close()


def test_a_script_that_is_cancelled_has_lost_nothing_to_restarts(tmp_path: Path) -> None:
    world = Kinds(tmp_path, "las")
    (job,) = world.submit("script")
    world.turns(200, apart=5.0)
    cancel(world, job)
    world.turns(3)
    cancelled = world.row(job)
    assert (cancelled.state, cancelled.restart_seconds) == (State.CANCELLED, 0.0)
    assert cancelled.run_seconds > 190
    world.store.close()


@pytest.mark.parametrize("name", ["script", "trained"])
def test_a_burst_of_submissions_stops_no_job_in_start_up(tmp_path: Path, name: str) -> None:
    world = Kinds(tmp_path, "las+tune-plus")
    jobs = world.submit(name, 4)
    world.turn(1.0)
    for _ in range(120):
        world.submit("short", 2)
        world.turn(0.25)
    assert [world.row(job).epoch for job in jobs] == [1] * 4
    assert all(world.row(job).state is State.RUNNING for job in jobs)
    world.store.close()


def drain(world: Kinds, _: int) -> None:
    for node in world.cluster.nodes:
        world.store.drain(node.name, True)


def cancel(world: Kinds, job: int) -> None:
    world.store.request_state(job, StateRequest.CANCEL)


def hold(world: Kinds, job: int) -> None:
    world.store.request_state(job, StateRequest.HOLD)


@pytest.mark.parametrize("request_to_stop", [drain, cancel, hold])
@pytest.mark.parametrize("fields", [{}, {"preemptible": False}, {"min_runtime_seconds": 1e6}])
@pytest.mark.parametrize("passed", [5.0, 100.0])
def test_owners_and_operators_stop_a_protected_job(
    tmp_path: Path, request_to_stop: Callable[[Kinds, int], None], fields: dict[str, Any], passed: float
) -> None:
    world = Kinds(tmp_path, "las+tune-plus")
    (job,) = world.submit("script", **fields)
    world.turns(passed, apart=5.0)
    request_to_stop(world, job)
    world.turns(3)
    assert world.row(job).state is not State.RUNNING
    world.store.close()


def orders_to_stop(world: Kinds, jobs: Sequence[int]) -> int:
    return sum(event.kind == "asked to stop" for job in jobs for event in world.store.events(job))


def test_a_place_that_waits_for_its_gpus_is_not_given_away(tmp_path: Path) -> None:
    """Those who were stopped for it were stopped once: newcomers do not take the place before it began."""
    world = Kinds(tmp_path, "las")
    running = world.submit("trained", 4)
    world.turns(900, apart=5.0)
    stop, late = world.engine.signal, []
    world.engine.signal = lambda *start: late.append(start)  # type: ignore[method-assign]
    first = world.submit("trained", 4)
    world.turns(40, apart=1.0)
    assert late, "nothing was asked to make room"
    waits = {job for job in first if job in world.controller.jobs.columns.plan}
    assert waits
    for _ in range(40):
        world.submit("short", 2)
        world.turn(0.5)
    assert waits <= world.controller.jobs.columns.plan.keys()
    assert orders_to_stop(world, running) == len(late)
    for start in late:
        stop(*start)
    world.turns(3)
    assert all(world.row(job).state is State.RUNNING for job in waits)
    world.store.close()
