"""Backfill, live: a large gang starts although small jobs come all the time, and small ones use what it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.cluster.shipped import parse_cluster
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.simulated_queue import GUESSED_SECONDS
from muster.service.start_question import SeenQueue, question_of
from muster.service.store.rows import State, Submission
from muster.service.waiting import ClosedNodes

from .test_fake_nodes import CLUSTER, World


@contextmanager
def stream_of_small_jobs(folder: Path, scheduler: str, limit: float | None) -> Iterator[World]:
    """Half of the GPUs are held; a gang for all of them comes, and every 10 s a job of 40 s."""
    world = World(folder, scheduler)
    submit(world, 2, 1, 40, limit)
    world.turn(1.0)
    submit(world, 1, CLUSTER.total_gpus, 60, 200.0)
    yield world
    world.store.close()


def submit(
    world: World, jobs: int, gpus: int, steps: int, limit: float | None, user: str = "ann"
) -> list[int]:
    request = JobRequest(
        name="job", command=("true",), directory="/", steps=steps, gpus=gpus, time_limit_seconds=limit
    )
    return world.store.submit([Submission(user, request) for _ in range(jobs)])


def seconds_until_the_gang_runs(world: World, limit: float | None, end: int = 600) -> float:
    gang = next(row.id for row in world.store.jobs() if row.request.gpus == CLUSTER.total_gpus)
    for second in range(end):
        if second % 10 == 0:
            submit(world, 1, 1, 40, limit)
        world.turn(1.0)
        row = world.store.job(gang)
        assert row is not None
        if row.state is State.RUNNING:
            return second
    return float("inf")


@pytest.mark.parametrize("limit", [60.0, None], ids=["limits", "no limits"])
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_a_large_gang_starts_in_a_stream_of_small_jobs(
    tmp_path: Path, backfill: str, limit: float | None
) -> None:
    with stream_of_small_jobs(tmp_path, f"fifo+{backfill}", limit) as world:
        assert seconds_until_the_gang_runs(world, limit) <= 130


def test_without_reservations_the_gang_starves(tmp_path: Path) -> None:
    """Otherwise the test above shows nothing."""
    with stream_of_small_jobs(tmp_path, "fifo+proportional", 60.0) as world:
        assert seconds_until_the_gang_runs(world, 60.0) == float("inf")


def test_a_job_that_ends_before_the_gang_starts_passes_it(tmp_path: Path) -> None:
    with stream_of_small_jobs(tmp_path, "fifo+easy", 300.0) as world:
        short, long = submit(world, 1, 1, 5, 20.0)[0], submit(world, 1, 1, 5, 1000.0)[0]
        world.turn(1.0)
        states = {row.id: row.state for row in world.store.jobs()}
        assert (states[short], states[long]) == (State.RUNNING, State.QUEUED)


def test_a_reservation_outlives_the_daemon(tmp_path: Path) -> None:
    with stream_of_small_jobs(tmp_path, "fifo+easy", 60.0) as world:
        world.turn(1.0)
        world.turn(1.0)
        before = promised(world)
        world.die()
        world.turn(1.0)
        assert promised(world) == before == pytest.approx({3: 61.0}, abs=2.0)


def promised(world: World) -> dict[int, float]:
    """When jobs with a reservation are to start."""
    return {
        row.id: row.reason_since + row.reason_parameters["seconds"]
        for row in world.store.jobs()
        if row.reason == "reserved" and row.reason_since is not None and row.reason_parameters
    }


def test_who_has_used_less_lately_goes_first(tmp_path: Path) -> None:
    """Usage with a half-life orders the queue live; with the weight of age alone, who came first goes first."""
    for weights, first in (({"weight_fair_share": "100000", "weight_age": "0"}, "bob"), ({}, "ann")):
        given = {"weight_fair_share": "0", "weight_job_size": "0", "calc_period_seconds": "10", **weights}
        world = World(tmp_path / first, live_scheduler("multifactor+easy", given, 20.0))
        submit(world, CLUSTER.total_gpus, 1, 100, 200.0, "ann")
        world.turn(1.0)
        submit(world, CLUSTER.total_gpus, 1, 100, 200.0, "ann")
        world.turn(30.0)
        submit(world, CLUSTER.total_gpus, 1, 100, 200.0, "bob")
        for _ in range(120):
            world.turn(1.0)
        users = {row.user for row in world.store.jobs() if row.state is State.RUNNING}
        assert users == {first}
        world.store.close()


def test_a_job_without_requests_has_its_share_under_slurm(tmp_path: Path) -> None:
    """Beside a job that requests all CPUs and memory it waits. It was started with none, and killed for that."""
    world = World(tmp_path, "slurm")
    world.cluster = parse_cluster("1x2gpu,6cpu,100gb")
    world.die()
    (fat,) = submit_one(world, cpus=6, memory_gb=100, steps=30)
    world.turn(1.0)
    (plain,) = submit_one(world, steps=1000)
    for _ in range(10):
        world.turn(1.0)
    states = {row.id: row.state for row in world.store.jobs()}
    assert (states[fat], states[plain]) == (State.RUNNING, State.QUEUED)
    seen = SeenQueue(world.seconds, world.store.living(), [], world.store.held_now(), ClosedNodes())
    expected = question_of(seen, world.status, 5).answer()[0].starts[str(plain)].median
    for _ in range(60):
        world.turn(1.0)
    (held,) = world.store.allocation_intervals(plain, open_only=True)
    assert (held.allocation.cpus, held.allocation.memory_gb) == (3.0, 50.0)
    assert expected >= GUESSED_SECONDS  # It is not known yet how long the other one takes.


def submit_one(world: World, **fields: float) -> list[int]:
    request = JobRequest.model_validate({"name": "job", "command": ("true",), "directory": "/", **fields})
    return world.store.submit([Submission("ann", request)])
