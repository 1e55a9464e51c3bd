"""The store or the machine fail for a while: nothing is done that is not on record, and all goes on after it."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.files import unwritable
from muster.problems import Unable
from muster.service.daemon_status import MACHINE, STORE
from muster.service.engines.ray.connection import RayError
from muster.service.store import Store, StoreTaken, database
from muster.service.store.rows import Caller, State, StateRequest, Submission
from muster.service.waiting import nothing_starts
from muster.slurm_queries import SlurmError

from ..store.conftest import Server, new_database
from ..store.cutting import cutting
from .test_fake_nodes import World, a_job


@contextmanager
def another_writer(folder: Path) -> Iterator[None]:
    """The store cannot be written meanwhile, and can be read."""
    connection = sqlite3.connect(folder / "muster.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.close()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(database, "_WAITS_SECONDS", 0.05)
    made = World(tmp_path, "fifo")
    yield made
    made.store.close()


def running(world: World, steps: int = 10, jobs: int = 1) -> list[int]:
    ids = world.store.submit([Submission("ann", a_job(steps)) for _ in range(jobs)])
    for _ in range(3):
        world.turn(1.0)
    rows = [world.store.job(job) for job in ids]
    assert all(row is not None and row.state is State.RUNNING for row in rows)
    return ids


def ended_well(world: World, job: int) -> None:
    row = world.store.job(job)
    assert row is not None
    assert (row.state, row.epoch, row.steps_done) == (State.COMPLETED, 1, 10)
    assert [event.kind for event in world.store.events(job)] == ["submitted", "started", "completed"]
    assert not world.store.allocation_intervals(open_only=True)


def test_a_job_whose_end_could_not_be_written_is_not_run_again(world: World) -> None:
    """Neither is its end forgotten by the engine: the next daemon hears of it there."""
    (job,) = running(world)
    with another_writer(world.folder):
        world.controller.stop()
        world.seconds += 60.0
        world.controller.turn()
        assert world.status.conditions.keys() == {STORE}
    world.die()
    for _ in range(3):
        world.turn(1.0)
    ended_well(world, job)


def test_what_could_not_be_written_is_written_once_it_can(world: World) -> None:
    """And its act is done then; while it cannot, nothing new is begun, or even found out.

    A caller may commit the very same once more: the store knows whether it was written already.
    """
    (job,) = running(world)
    (later,) = running(world, steps=200)
    with another_writer(world.folder):
        for _ in range(5):
            world.seconds += 60.0
            assert not world.controller.turn()
        assert world.controller.jobs.changes.closed.keys() == {(job, 1)}
        assert {one.job for one in world.engine.observe()} == {job, later}
    world.turn(1.0)
    assert not world.engine.observe()
    ended_well(world, job)
    row = world.store.job(later)
    assert row is not None
    assert row.state is State.COMPLETED


def failed_write() -> Exception:
    """What a file of an engine's own raises on a full disk."""
    try:
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise unwritable(Path("/home/ann/secret"), error) from None
    except Unable as failure:
        return failure


ENGINE_FAILURES = {
    "this machine refuses: No space left on device": failed_write(),
    "this machine refuses: Too many open files": OSError(
        errno.EMFILE, os.strerror(errno.EMFILE), "/home/ann/secret"
    ),
    "the engine fails: slurmctld does not accept a credential. "
    "Hint: compare this machine's clock and authentication key with slurmctld's": SlurmError(
        "sbatch: error: Batch job submission failed: Protocol authentication error (secret)"
    ),
    "the engine fails: Slurm did not carry out a command": SlurmError("scontrol: of job secret"),
    "the engine fails: Ray does not answer. Hint: ray status": RayError("no head at secret:6379"),
}


@pytest.mark.parametrize("said", ENGINE_FAILURES)
def test_an_engine_that_cannot_look_is_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    """As where the daemon has too many open files; whatever is requested meanwhile is done after it."""
    (job,) = running(world)
    with monkeypatch.context() as broken:

        def fail() -> None:
            raise ENGINE_FAILURES[said]

        broken.setattr(world.engine, "observe", fail)
        world.store.request_state(job, StateRequest.CANCEL)
        for _ in range(3):
            world.seconds += 1.0
            assert not world.controller.turn()
        assert world.status.conditions == {MACHINE: said}
        assert nothing_starts(world.status, Caller("ann", operator=False), world.store.now()) == [f"{said}."]
    world.turn(1.0)
    world.turn(1.0)
    row = world.store.job(job)
    assert row is not None
    assert row.state is State.CANCELLED


def test_a_failing_command_is_a_condition_until_it_succeeds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:

        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        broken.setattr(world.engine, "launch", fail)
        (job,) = world.store.submit([Submission("ann", a_job(10))])
        for _ in range(3):
            world.seconds += 1.0
            world.controller.turn()
            assert world.status.conditions == {MACHINE: "this machine refuses: No space left on device"}
    world.turn(1.0)
    world.turn(60.0)
    ended_well(world, job)


@pytest.mark.needs_postgres
def test_a_server_that_goes_away_and_comes_back(postgres: Server, tmp_path: Path) -> None:
    """The daemon waits for it, as it does where only the disk is full, and nothing is begun twice."""
    world = World(tmp_path, "fifo", new_database(postgres))
    with world.store.claimed():
        (job,) = running(world)
        postgres.stop("immediate")
        try:
            for _ in range(3):
                world.seconds += 60.0
                assert not world.controller.turn()
                assert world.status.conditions.keys() == {STORE}
                assert str(postgres.folder) not in world.status.condition
        finally:
            postgres.start()
        world.turn(1.0)
        ended_well(world, job)
    world.store.close()


@pytest.mark.needs_postgres
def test_a_commit_in_doubt_is_written_once(postgres: Server, tmp_path: Path) -> None:
    # A socket's path must be short.
    with (
        tempfile.TemporaryDirectory(prefix="muster-cut-") as folder,
        cutting(postgres.folder / ".s.PGSQL.5432", Path(folder)) as relay,
    ):
        url = new_database(postgres).replace(str(postgres.folder), folder)
        world = World(tmp_path, "fifo", url)
        (job,) = world.store.submit([Submission("ann", a_job(10))])
        relay.armed = True
        assert not world.controller.turn()
        assert relay.cut == 1
        assert not world.engine.observe(), "it is begun before anybody knows that it is on record"
        world.turn(1.0)
        assert len(world.store.allocation_intervals(job)) == 1
        world.turn(60.0)
        ended_well(world, job)
        world.store.close()


@pytest.mark.needs_postgres
def test_a_daemon_ends_when_another_one_has_taken_its_store(postgres: Server, tmp_path: Path) -> None:
    url = new_database(postgres)
    world = World(tmp_path, "fifo", url)
    other = Store.open(url)
    with world.store.claimed():
        (job,) = running(world)
        world.status.ready = True
        postgres.stop("immediate")
        postgres.start()
        world.seconds += 60.0
        with other.claimed(), pytest.raises(StoreTaken, match="another daemon has taken this store"):
            world.controller.run()
    row = other.job(job)
    assert row is not None
    assert row.state is State.RUNNING
    for store in (world.store, other):
        store.close()
