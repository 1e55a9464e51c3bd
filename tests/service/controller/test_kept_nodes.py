"""Jobs whose scripts go on only with as many processes as before, with one process on each node."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.service.store.rows import State, StateRequest

from .test_elastic_jobs import ElasticWorld

CLUSTER = "2x4gpu,16cpu,64gb"
SCHEDULERS = ("gittins+joint", "fifo+joint", "gittins+tune-plus", "fifo", "dally-plus")


def nodes_of_starts(world: ElasticWorld, job: int) -> list[set[str]]:
    """The nodes of each start of a job."""
    found: dict[int, set[str]] = {}
    for interval in world.store.allocation_intervals(job):
        found.setdefault(interval.epoch, set()).add(interval.allocation.node)
    return [found[epoch] for epoch in sorted(found)]


def halves(world: ElasticWorld, nodes: set[str]) -> list[int]:
    """Jobs that hold half of each node; those on these nodes only are left."""
    half = {"gpus": 2, "cpus": 8, "memory_gb": 32, "preemptible": False, "steps": 300}
    jobs = [world.submit(**half) for _ in range(4)]
    world.turns(3)
    left, seen = [], set()
    for job in jobs:
        (on,) = nodes_of_starts(world, job)[0]
        if on in nodes and on not in seen:
            left.append(job)
            seen.add(on)
        else:
            world.store.request_state(job, StateRequest.CANCEL)
    world.turns(3)
    return left


def has_run(world: ElasticWorld, *, elastic: bool = False) -> int:
    """A job of four GPUs that has run where there was room, reported, and is held."""
    job = world.submit(gpus=4, steps=20_000)
    world.turns(3)
    world.report(job, elastic=elastic)
    world.turns(3)
    world.store.request_state(job, StateRequest.HOLD)
    world.turns(40)
    assert world.row(job).state is State.HELD
    return job


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_such_a_job_waits_for_as_many_nodes_as_before(tmp_path: Path, scheduler: str) -> None:
    """It ran on one node; half of each is free for now."""
    world = ElasticWorld(tmp_path, CLUSTER, scheduler)
    job = has_run(world)
    left = halves(world, {"node-0", "node-1"})
    world.store.request_state(job, StateRequest.RELEASE)
    world.turns(30)
    assert world.gpus(job) == 0
    assert "It needs 1 node, as before: its script goes on only with as many processes." in world.why(job)
    world.die()
    for other in left:
        world.store.request_state(other, StateRequest.CANCEL)
    world.turns(60)
    assert world.gpus(job) == 4
    assert [len(nodes) for nodes in nodes_of_starts(world, job)] == [1, 1]
    kinds = [event.kind for event in world.store.events(job)]
    assert kinds.count("keeps its number of nodes") == 1
    world.store.close()


@pytest.mark.parametrize("scheduler", ["gittins+joint", "fifo+joint", "gittins+tune-plus", "fifo"])
def test_a_job_that_ran_on_two_nodes_runs_on_two_again(tmp_path: Path, scheduler: str) -> None:
    """Also where one has room for it."""
    world = ElasticWorld(tmp_path, CLUSTER, scheduler)
    left = halves(world, {"node-0", "node-1"})
    job = has_run(world)
    for other in left:
        world.store.request_state(other, StateRequest.CANCEL)
    world.turns(3)
    world.store.request_state(job, StateRequest.RELEASE)
    world.turns(30)
    assert world.gpus(job) == 4
    assert nodes_of_starts(world, job) == [{"node-0", "node-1"}] * 2
    world.store.close()


def test_an_elastic_script_has_any_number_of_nodes(tmp_path: Path) -> None:
    world = ElasticWorld(tmp_path, CLUSTER)
    job = has_run(world, elastic=True)
    halves(world, {"node-0", "node-1"})
    world.store.request_state(job, StateRequest.RELEASE)
    world.turns(30)
    assert [len(nodes) for nodes in nodes_of_starts(world, job)] == [1, 2]
    world.store.close()


def test_a_scheduler_that_does_not_see_it_is_asked_again(tmp_path: Path) -> None:
    """It would put all GPUs on one node: the job waits, and what it would have had others may have."""
    world = ElasticWorld(tmp_path, CLUSTER, "dally-plus")
    left = halves(world, {"node-0", "node-1"})
    job = has_run(world)
    assert set(world.row(job).fixed_nodes) == {"node-0", "node-1"}
    for other in left:
        world.store.request_state(other, StateRequest.CANCEL)
    world.store.request_state(job, StateRequest.RELEASE)
    world.turns(30)
    assert world.gpus(job) == 0
    other = world.submit(gpus=4, steps=100)
    world.turns(3)
    assert world.gpus(other) == 4
    world.store.close()


def test_one_that_was_cancelled_while_it_waited_counts_no_more(tmp_path: Path) -> None:
    """Decisions are made without it."""
    world = ElasticWorld(tmp_path, CLUSTER)
    job = has_run(world)
    world.store.request_state(job, StateRequest.CANCEL)
    world.turns(3)
    other = world.submit(gpus=2, steps=20_000)
    world.turns(10)
    assert world.row(job).state is State.CANCELLED
    assert world.gpus(other) == 2
    world.store.close()
