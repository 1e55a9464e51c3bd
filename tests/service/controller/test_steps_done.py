"""How far a job was over time is kept: few points, from which its speed is known."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from muster.service.controller.starts import JobStart
from muster.service.home import job_folder
from muster.service.store.rows import StateRequest, StepsDone, Submission
from muster.training.run_folder import progress_file

from ..serving import a_request
from .test_fake_nodes import World


@given(
    passed=some.lists(some.integers(0, 100), min_size=1, max_size=40),
    gap=some.sampled_from([0.0, 10.0, 60.0]),
)
def test_reports_are_noted_at_distances(passed: list[int], gap: float) -> None:
    start, noted, now = JobStart(1, 2, (), 0.0, 0.0), list[StepsDone](), 0.0
    assert start.reports_to_note(gap) == []
    reported = []
    for seconds in passed:
        now += seconds
        reported.append((now, 3 * now))
        start.first_report = start.first_report or reported[0]
        start.newest_report = reported[-1]
        noted += start.reports_to_note(gap)
    times = [one.time for one in noted]
    assert times[0] == reported[0][0]
    assert all(later > earlier and later - earlier >= gap for earlier, later in pairwise(times))
    assert now - times[-1] < gap or times[-1] == now
    assert {(one.time, one.steps) for one in noted} <= set(reported)


def test_speed_of_each_start_is_known(tmp_path: Path) -> None:
    """A fake job reports when it stops; the daemon has seen when it made its first step."""
    world = World(tmp_path, "fifo")
    (job,) = world.store.submit([Submission("ann", a_request(model="resnet18", steps=10**9))])
    for state_request in (StateRequest.HOLD, StateRequest.RELEASE) * 2:
        for _ in range(30):
            world.turn(20.0)
        world.store.request_state(job, state_request, "ann")
        world.turn(1.0)
        world.turn(1.0)
    row = world.store.job(job)
    assert row is not None
    found = world.store.steps_done(job)
    assert found[-1].steps == row.steps_done
    pace = world.pace(job, [world.store.allocation_intervals(job)[0].allocation]).steps_per_second
    assert [one.epoch for one in found] == [1, 1, 2, 2]
    for begun, stopped in (found[:2], found[2:]):
        assert (stopped.steps - begun.steps) / (stopped.time - begun.time) == pytest.approx(pace, rel=0.01)
    world.store.close()


def test_a_job_that_lost_steps_begins_with_its_first_report() -> None:
    start = JobStart(1, 2, (), 0.0, steps_before=500.0, first_step=3.0, first_report=(5.0, 400.0))
    start.newest_report = (20.0, 460.0)
    assert start.reports_to_note(10.0) == [StepsDone(1, 2, 5.0, 400.0), StepsDone(1, 2, 20.0, 460.0)]


def test_reports_of_an_old_job_are_noted_less_often(tmp_path: Path) -> None:
    """Once in 1 % of its age, so that a job of a month leaves fewer than 1000."""
    world = World(tmp_path, "fifo")
    (job,) = world.store.submit([Submission("ann", a_request(model="resnet18", steps=10**9))])
    world.turn(1.0)
    run = job_folder(tmp_path, job) / "run"
    run.mkdir(parents=True, exist_ok=True)
    old = 10 * 86_400.0
    for passed in (10.0, 10.0, old, *[0.0025 * old] * 20):
        progress = {"epoch": 1, "step": int(world.seconds), "steps_per_second": 1.0}
        progress_file(run, 1).write_text(json.dumps(progress))
        world.turn(passed)
    times = [one.time for one in world.store.steps_done(job)]
    late = [later - earlier for earlier, later in pairwise(times) if earlier > old]
    assert late == [pytest.approx(0.01 * old, rel=0.3)] * 4
    world.store.close()
