"""A store is one daemon's, and what it commits is done once, whatever becomes of the database meanwhile."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from muster.cluster.ledger import NodeAllocation
from muster.problems import InputError
from muster.service.store import Store, StoreTaken, StoreUnavailable
from muster.service.store.rows import AllocationInterval, Event, State, StoreChanges, Submission

from ..serving import a_request
from .conftest import Server, new_database
from .cutting import Relay, cutting

HELD = AllocationInterval(1, 1, NodeAllocation("n", (0,), 1.0, 1.0, 0.0), since=1.0)


def some_changes(job: int = 1) -> StoreChanges:
    changes = StoreChanges(jobs={job: {"state": State.RUNNING}}, opened=[HELD])
    changes.event(job, 1.0, "started")
    return changes


def with_a_job(url: str) -> Store:
    store = Store.open(url)
    store.submit([Submission("ann", a_request())])
    return store


def test_claim_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'muster.db'}")
    claim = tmp_path / "muster.db.claim"
    claim.touch(0o644)
    with store.claimed():
        assert claim.stat().st_mode & 0o777 == 0o600
    claim.unlink()
    claim.symlink_to(tmp_path / "victim")
    with pytest.raises(InputError, match="claim: cannot be locked"), store.claimed():
        pass
    store.close()
    assert not (tmp_path / "victim").exists()


def ask(url: str, question: str) -> list[object]:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            return [row[0] for row in connection.exec_driver_sql(question)]
    finally:
        engine.dispose()


KILL_HOLDER = "SELECT pg_terminate_backend(pid, 60000) FROM pg_locks WHERE locktype = 'advisory'"
"""Answers once it is dead."""


def test_who_has_lost_the_store_to_another_writes_nothing_more(url: str) -> None:
    first, second = with_a_job(url), Store.open(url)
    with first.claimed():
        first.commit(some_changes())
        before = (first.job(1), first.allocation_intervals(), first.events(1))
    with second.claimed():
        second.keep_claim()
        with pytest.raises(StoreTaken, match="another daemon has taken this store"):
            first.commit(StoreChanges(events=[Event(1, 2.0, "ended")]))
        assert (second.job(1), second.allocation_intervals(), second.events(1)) == before
        second.commit(StoreChanges(events=[Event(1, 2.0, "ended")]))
    for store in (first, second):
        store.close()


def test_equal_changes_are_written_twice_unless_in_doubt(store: Store) -> None:
    store.submit([Submission("ann", a_request())])
    changes = some_changes()
    store.commit(changes)
    store.commit(changes)
    assert len(store.allocation_intervals()) == 2


@pytest.mark.needs_postgres
def test_a_claim_whose_connection_ended_is_taken_again(postgres: Server) -> None:
    url = new_database(postgres)
    first, second = with_a_job(url), Store.open(url)
    with first.claimed():
        assert ask(url, KILL_HOLDER) == [True]
        first.keep_claim()
        first.commit(some_changes())
        with pytest.raises(InputError, match="another daemon works on this store"), second.claimed():
            pass
        first.keep_claim()
    with second.claimed():
        second.keep_claim()
    for store in (first, second):
        store.close()


@pytest.mark.needs_postgres
def test_a_claim_outlives_its_server(postgres: Server) -> None:
    url = new_database(postgres)
    first, second = with_a_job(url), Store.open(url)
    with first.claimed():
        postgres.stop("immediate")
        try:
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="the store cannot be used"):
                    first.keep_claim()
            with pytest.raises(StoreUnavailable, match="the store cannot be used"), second.claimed():
                pass
        finally:
            postgres.start()
        first.keep_claim()
        first.commit(some_changes())
        with pytest.raises(InputError, match="another daemon works on this store"), second.claimed():
            pass
        postgres.stop("immediate")
        postgres.start()
    # It goes without a word where the claim is lost with the server, and there is nothing to give back.
    with second.claimed():
        pass
    for store in (first, second):
        store.close()


@pytest.mark.needs_postgres
@pytest.mark.parametrize("gone_again", [False, True])
def test_a_lost_claim_is_found_before_anything_is_written(postgres: Server, gone_again: bool) -> None:
    url = new_database(postgres)
    first, second = with_a_job(url), Store.open(url)
    with first.claimed():
        ask(url, KILL_HOLDER)
        claim = second.claimed()
        claim.__enter__()
        if gone_again:
            claim.__exit__(None, None, None)
        with pytest.raises(StoreTaken):
            first.commit(some_changes())
        for _ in range(2):
            with pytest.raises(StoreTaken):
                first.keep_claim()
        assert first.allocation_intervals() == []
        if not gone_again:
            claim.__exit__(None, None, None)
    for store in (first, second):
        store.close()


@pytest.fixture
def cut(postgres: Server) -> Iterator[tuple[Store, Relay]]:
    url = new_database(postgres)
    # A socket's path must be short.
    with (
        tempfile.TemporaryDirectory(prefix="muster-cut-") as folder,
        cutting(postgres.folder / ".s.PGSQL.5432", Path(folder)) as relay,
    ):
        store = with_a_job(url.replace(str(postgres.folder), folder))
        yield store, relay
        store.close()


@pytest.mark.needs_postgres
def test_a_commit_whose_answer_was_lost_is_done_once(cut: tuple[Store, Relay]) -> None:
    store, relay = cut
    for turn in range(1, 3):
        changes = some_changes()
        relay.armed = True
        with pytest.raises(StoreUnavailable):
            store.commit(changes)
        assert relay.cut == turn
        store.commit(changes)
        assert len(store.allocation_intervals()) == len(store.events(1)) - 1 == turn
    store.commit(changes)
    assert len(store.allocation_intervals()) == 3


@pytest.mark.needs_postgres
def test_other_changes_after_a_lost_answer_are_written(cut: tuple[Store, Relay]) -> None:
    store, relay = cut
    relay.armed = True
    with pytest.raises(StoreUnavailable):
        store.commit(some_changes())
    store.commit(some_changes())
    assert len(store.allocation_intervals()) == 2
