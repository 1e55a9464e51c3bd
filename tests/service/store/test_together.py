"""What is read together is of one moment, whatever is written meanwhile; on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.export import record_and_trace
from muster.service.store import Store
from muster.service.store.rows import AllocationInterval, State, StoreChanges, Submission

from ..serving import a_request, a_status


def starts(store: Store, job: int) -> None:
    store.commit(
        StoreChanges(
            jobs={job: {"state": State.RUNNING, "epoch": 1}},
            opened=[AllocationInterval(job, 1, NodeAllocation("node-0", (0,), 1.0, 1.0, 0.0), since=1.0)],
        )
    )


def test_what_is_read_together_is_of_one_moment(store: Store) -> None:
    (job,) = store.submit([Submission("ann", a_request())])
    with store.together():
        assert [row.id for row in store.jobs([State.QUEUED])] == [job]
        starts(store, job)
        with store.together():
            assert store.jobs([State.RUNNING]) == []
        assert store.allocation_intervals() == []
        assert store.counts()[State.QUEUED] == 1
    assert store.jobs([State.QUEUED]) == []
    assert store.counts()[State.RUNNING] == len(store.allocation_intervals(open_only=True)) == 1
    assert set(store.holders("ann")) == {job}
    assert not store.holders("bob")


def test_the_record_is_of_one_moment(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job starts after the jobs were read: its allocation has not begun yet."""
    (job,) = store.submit([Submission("ann", a_request())])
    intervals = store.every_allocation_interval

    def later() -> Iterator[AllocationInterval]:
        starts(store, job)
        return intervals()

    monkeypatch.setattr(store, "every_allocation_interval", later)
    record, _ = record_and_trace(store, a_status(tmp_path))
    assert (len(record.jobs), len(record.allocations)) == (1, 0)
