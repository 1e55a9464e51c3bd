"""A command is noted as sent only when it succeeded: what failed is sent again, also by a new daemon."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.home import job_folder
from muster.service.store.rows import JobRow, Phase, State, StateRequest, StoreChanges, Submission

from .test_fake_nodes import World, a_job


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, "fifo")
    yield made
    made.store.close()


def running(world: World, jobs: int = 1, steps: int = 1000) -> list[int]:
    ids = world.store.submit([Submission("ann", a_job(steps)) for _ in range(jobs)])
    for _ in range(2):
        world.turn(1.0)
    assert all(job_of(world, job).phase is Phase.RUNNING for job in ids)
    return ids


def job_of(world: World, job: int) -> JobRow:
    row = world.store.job(job)
    assert row is not None
    return row


def turns(world: World, count: int = 1, seconds: float = 1.0) -> None:
    """Some of their engine calls fail."""
    for _ in range(count):
        world.seconds += seconds
        world.controller.turn()


class Refusing:
    """An engine's call that is refused so often; counts what came through."""

    def __init__(self, call: Callable[..., None], times: int) -> None:
        self.call, self.times, self.done = call, times, 0

    def __call__(self, *what: object) -> None:
        if self.times:
            self.times -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.call(*what)
        self.done += 1


def refuse(world: World, name: str, times: int) -> Refusing:
    refusing = Refusing(getattr(world.engine, name), times)
    setattr(world.engine, name, refusing)
    return refusing


def kinds(world: World, job: int) -> list[str]:
    return [event.kind for event in world.store.events(job)]


def test_a_stop_that_failed_is_sent_again_and_starts_the_grace(world: World) -> None:
    (job,) = running(world)
    signal, kill = refuse(world, "signal", 100), refuse(world, "kill", 0)
    world.store.request_state(job, StateRequest.CANCEL)
    turns(world, 50, seconds=10.0)
    assert job_of(world, job).phase is Phase.STOPPING
    assert not kill.done, "it has never been asked to go"
    signal.times = 0
    turns(world, 2)
    assert (signal.done, kill.done) == (1, 0)
    assert job_of(world, job).state is State.CANCELLED


def test_a_kill_that_could_not_be_done_is_done_again(world: World) -> None:
    (job,) = running(world)
    world.engine.signal = lambda *_: None  # type: ignore[method-assign]
    kill = refuse(world, "kill", 3)
    world.store.request_state(job, StateRequest.CANCEL)
    turns(world, 2, seconds=59.0)
    assert kill.times == 3
    turns(world, 6)
    assert kill.done == 1
    assert job_of(world, job).state is State.CANCELLED
    assert kinds(world, job).count("grace is over") == 1


def test_a_joined_job_gets_a_signal_if_its_notice_fails(world: World) -> None:
    (job,) = running(world)
    run_dir = job_folder(world.folder, job) / "run"
    run_dir.mkdir(parents=True)
    (run_dir / "progress-1.json").write_text('{"epoch": 1, "step": 1}')
    world.turn(1.0)
    (run_dir / f"{os.getpid()}.part").mkdir()
    world.store.request_state(job, StateRequest.CANCEL)
    turns(world, 3)
    assert job_of(world, job).state is State.CANCELLED


def test_no_job_starts_on_a_node_before_a_failed_resize_succeeds(world: World) -> None:
    """And a new daemon sends the size again."""
    first, second = running(world, 2)
    before = {job: world.controller.jobs.columns.plan[job] for job in (first, second)}
    assert len({here.node for both in before.values() for here in both}) == 1, "fifo packs"

    def plan(job: int, cpus: float) -> tuple[NodeAllocation[str], ...]:
        smaller = tuple(replace(here, cpus=cpus) for here in before[job])
        world.controller.jobs.columns.plan[job] = smaller
        return smaller

    resize = refuse(world, "resize", 5)
    smaller = plan(first, 1.0)
    turns(world, 2)
    assert world.controller.jobs.starts[first].applied == before[first]
    third, fourth = world.store.submit([Submission("ann", a_job(1000)) for _ in range(2)])
    world.store.request_state(second, StateRequest.CANCEL)
    turns(world, 3)
    launched = {one.job for one in world.engine.observe()}
    where = world.controller.jobs.starts
    for job in (third, fourth):
        assert (job in launched) == (where[job].allocations[0].node != smaller[0].node)
    assert {here.node for job in (third, fourth) for here in where[job].allocations} != {smaller[0].node}
    turns(world, 2)
    assert resize.done == 1
    assert where[first].applied == smaller
    assert {third, fourth} <= {one.job for one in world.engine.observe()}
    world.die()
    resize = refuse(world, "resize", 0)
    turns(world)
    assert resize.done == 3, "all that run"


@pytest.mark.parametrize(
    "requests", [(StateRequest.HOLD, StateRequest.RELEASE), (StateRequest.HOLD,), (StateRequest.CANCEL,)]
)
@pytest.mark.parametrize("stops", [True, False], ids=["it stops", "it does not"])
@pytest.mark.parametrize("turns_before", [0, 1])
def test_state_requests_survive_the_daemon(
    world: World, requests: tuple[StateRequest, ...], stops: bool, turns_before: int
) -> None:
    """Held, released while it stops, and killed before the release is seen: it competes again."""
    (job,) = running(world)
    world.engine.signal = lambda *_: None  # type: ignore[method-assign]
    for requested in requests:
        world.store.request_state(job, requested)
        turns(world, turns_before)
    if stops:
        world.engine._stop(job, 1, 75)
    world.die()
    signal, kill = refuse(world, "signal", 0), refuse(world, "kill", 0)
    turns(world, 3)
    row = job_of(world, job)
    assert row.state_request is None or row.state is not State.QUEUED
    if requests[-1] is StateRequest.RELEASE:
        assert (row.state, row.phase) == (State.RUNNING, Phase.RUNNING)
    elif requests[-1] is StateRequest.HOLD:
        assert row.state is State.HELD
    else:
        assert (row.state, row.message) == (State.CANCELLED, "cancelled as asked")
    assert not kill.done
    if not stops and requests[-1] is not StateRequest.RELEASE:
        assert signal.done == 1


def test_a_start_whose_node_is_gone_is_stopped_then_killed(world: World) -> None:
    """As on a machine with another name, or declared with fewer GPUs."""
    (job,) = running(world)
    (interval,) = world.store.allocation_intervals(job)
    elsewhere = replace(interval, allocation=interval.allocation.on("another"))
    world.store.commit(StoreChanges(closed={(job, 1): interval.since}, opened=[elsewhere]))
    world.die()
    signal, kill = refuse(world, "signal", 0), refuse(world, "kill", 0)
    turns(world, 4)
    assert (signal.done, kill.done) == (1, 0)
    row = job_of(world, job)
    assert (row.state, row.epoch, row.deaths) == (State.RUNNING, 2, 0)
    assert "asked to stop" in kinds(world, job)


def test_a_start_that_the_engine_has_lost_is_started_again(world: World) -> None:
    """Not launched again under its number, which whatever is left of it has too. It is no death."""
    (job,) = running(world)
    del world.engine._runs[job, 1], world.engine._observed[job, 1]
    world.turn(3.0)
    assert job_of(world, job).state is State.QUEUED
    world.turn(1.0)
    row = job_of(world, job)
    assert (row.state, row.epoch, row.deaths) == (State.RUNNING, 2, 0)
    assert row.run_seconds == pytest.approx(1.0), "until it was seen last"
    assert [event.detail for event in world.store.events(job) if event.kind == "lost"] == [
        "the engine has lost sight of it"
    ]


def test_a_start_that_was_not_launched_keeps_its_number(world: World) -> None:
    """The daemon died between the commit and the act."""
    (job,) = world.store.submit([Submission("ann", a_job(1000))])
    refuse(world, "launch", 100)
    turns(world, 3)
    world.die()
    turns(world, 2)
    assert [(one.job, one.epoch) for one in world.engine.observe()] == [(job, 1)]
    assert kinds(world, job) == ["submitted", "started"]


def test_a_start_that_cannot_be_begun_can_be_cancelled(world: World) -> None:
    (job,) = world.store.submit([Submission("ann", a_job(1000))])
    launch = refuse(world, "launch", 100)
    turns(world, 3)
    world.store.request_state(job, StateRequest.CANCEL)
    turns(world, 3)
    assert job_of(world, job).state is State.CANCELLED
    assert not launch.done


def test_the_past_is_not_loaded_again(world: World) -> None:
    first, *others = running(world, 3, steps=100)
    for job in others:
        world.store.request_state(job, StateRequest.CANCEL)
    turns(world, 3)
    world.die()
    turns(world, 2)
    assert world.controller.jobs.rows.keys() == {first}
    (new,) = world.store.submit([Submission("ann", a_job(10))])
    turns(world, 2)
    assert world.controller.jobs.rows.keys() == {first, new}
