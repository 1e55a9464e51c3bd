"""Schedulers that lease, live: a waiting job starts when a lease ends, whatever else happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from muster.schedulers.contract import Decision, Snapshot, Trigger
from muster.schedulers.contract import State as SchedulerState
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.store.rows import State, Submission

from .test_failing_scheduler import Twisted
from .test_fake_nodes import CLUSTER, World

LEASE = 3600.0
GPUS = CLUSTER.total_gpus


@pytest.fixture
def full(tmp_path: Path) -> Iterator[World]:
    """All GPUs are held since 0; at 10 comes one more job."""
    world = World(tmp_path, "dally")
    submit(world, GPUS)
    turns_until(world, 10.0)
    assert running(world) == set(range(1, GPUS + 1))
    submit(world, 1)
    turns_until(world, 20.0)
    yield world
    world.store.close()


def submit(world: World, jobs: int) -> None:
    request = JobRequest(name="job", command=("true",), directory="/", steps=10**6)
    world.store.submit([Submission("ann", request) for _ in range(jobs)])


def turns_until(world: World, end: float) -> None:
    """As the loop goes, but for the moments at which nothing is due."""
    while world.seconds < end:
        world.turn(min(1.0, end - world.seconds))


def running(world: World) -> set[int]:
    return {row.id for row in world.store.jobs() if row.state is State.RUNNING}


def pass_over(world: World, end: float) -> None:
    """To a moment until which no scheduler is to be asked."""
    assert world.controller._planner.next_wake > end
    world.seconds = end


def test_a_waiting_job_starts_when_a_lease_ends(full: World) -> None:
    waiting = GPUS + 1
    pass_over(full, LEASE - 10.0)
    turns_until(full, LEASE - 6.0)
    assert waiting not in running(full), "a lease was broken"
    turns_until(full, LEASE + 5.0)
    assert waiting in running(full)
    assert len(running(full)) == GPUS


def test_a_lease_outlives_the_daemon(full: World) -> None:
    """And it is neither longer nor shorter for that."""
    waiting = GPUS + 1
    full.die()
    turns_until(full, 30.0)
    pass_over(full, LEASE - 10.0)
    full.die()
    turns_until(full, LEASE - 6.0)
    assert waiting not in running(full), "a lease was broken"
    turns_until(full, LEASE + 5.0)
    assert waiting in running(full)


def test_a_job_without_lease_competes_under_a_leasing_scheduler(tmp_path: Path) -> None:
    world = World(tmp_path, "fifo")
    submit(world, GPUS + 1)
    turns_until(world, 5.0)
    assert running(world) == set(range(1, GPUS + 1))
    world.policy = live_scheduler("dally", {}, 20.0)
    world.die()
    turns_until(world, 10.0)
    assert GPUS + 1 in running(world)
    world.store.close()


def test_the_scheduler_learns_of_a_lease_end_at_that_moment(tmp_path: Path) -> None:
    asked: list[tuple[float, int]] = []

    def gives_a_lease(snapshot: Snapshot, plan: Decision, state: SchedulerState) -> object:
        asked.append((snapshot.now, snapshot.triggers))
        ends = {int(job): 10.0 if snapshot.now < 10.0 else inf for job in snapshot.jobs.index}
        return plan._replace(lease_ends=ends, wake_on=Trigger.ALL), state

    world = World(tmp_path, Twisted(gives_a_lease))
    submit(world, 1)
    turns_until(world, 15.0)
    assert [now for now, triggers in asked if triggers & Trigger.LEASE_END] == [10.0]
    world.store.close()
