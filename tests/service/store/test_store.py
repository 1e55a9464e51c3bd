"""What is put into the store comes out of it, on both databases."""

from __future__ import annotations

import json
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text, update
from sqlalchemy.exc import IntegrityError

from muster.cluster.ledger import NodeAllocation
from muster.problems import InputError
from muster.runtime.records import DECISIONS
from muster.service.store import Store
from muster.service.store.rows import (
    AllocationInterval,
    Event,
    JobLabel,
    JobRow,
    PendingInterval,
    Phase,
    QueuedDemand,
    State,
    StateRequest,
    StoreChanges,
    Submission,
    TenantUse,
)
from muster.service.store.tables import JOBS

from ..serving import a_request

HELD = AllocationInterval(1, 1, NodeAllocation("n", (0, 3), 1.5, 2.5, 0.25, milli=500), since=1.0)


def submitted(store: Store, count: int = 1, user: str = "ann", **fields: object) -> list[int]:
    return store.submit([Submission(user, a_request(**fields))] * count)


def test_a_job_comes_back_as_it_was_submitted(store: Store) -> None:
    request = a_request(
        name="größer 'x'",
        command=("python", "-c", 'print("ü\\n")\n'),
        environment={"A": "b\tc"},
        gpus=2,
        cpus=0.1,
        memory_gb=1e-3,
        steps=10**15,
        priority=-1.5,
        tenant="t",
        progress=r"step (?P<step>\d+)",
    )
    before = store.now()
    (job,) = store.submit([Submission("ann", request)])
    row = store.job(job)
    assert row is not None
    assert before <= row.submitted <= store.now()
    assert row == JobRow(1, "ann", request, row.submitted, reason_since=row.submitted)
    assert store.events(1) == [Event(1, row.submitted, "submitted")]
    assert store.job(2) is None
    assert store.events(2) == []


def test_jobs_are_found_by_page_state_user_and_name(store: Store) -> None:
    assert submitted(store, 3) == [1, 2, 3]
    assert submitted(store, 2, user="bob", name="other", held=True) == [4, 5]
    assert store.submit([]) == []
    pages = [[row.id for row in store.jobs(after=after, limit=2)] for after in (0, 2, 4, 5)]
    assert pages == [[1, 2], [3, 4], [5], []]
    assert [row.id for row in store.jobs(states=[State.HELD])] == [4, 5]
    assert [row.id for row in store.jobs(user="ann", name="job")] == [1, 2, 3]
    assert [row.id for row in store.jobs(user="ann", name="other")] == []
    assert [row.id for row in store.after(3)] == [4, 5]
    assert {state: count for state, count in store.counts().items() if count} == {
        State.QUEUED: 3,
        State.HELD: 2,
    }
    assert set(store.counts()) == set(State)


def test_the_demand_of_waiting_jobs_is_that_of_their_requests(store: Store) -> None:
    assert store.waiting_demand() == dict.fromkeys(("gpus", "cpus", "memory_gb"), QueuedDemand(0.0, 0))
    submitted(store, 2, gpus=3, cpus=1.5)
    submitted(store, 1, gpus=1, gpu_share=0.25, memory_gb=2.0, own_memory_gb=1.0)
    submitted(store, 1, gpus=0, cpus=4.0, memory_gb=8.0)
    (shrunk,) = submitted(store, 1, gpus=2, min_gpus=1, max_gpus=8, cpus=4.0, own_memory_gb=3.0)
    (running,) = submitted(store, 1, gpus=8)
    submitted(store, 2, gpus=8, cpus=8.0, held=True)
    store.commit(StoreChanges(jobs={shrunk: {"fixed_gpus": 1}, running: {"state": State.RUNNING}}))
    assert store.waiting_demand() == {
        "gpus": QueuedDemand(2 * 3 + 0.25 + 0 + 1, 4),
        "cpus": QueuedDemand(2 * 1.5 + 4.0 + 4.0 / 2, 4),
        "memory_gb": QueuedDemand(2.0 + 8.0 + 3.0 / 2, 3),
    }


def test_the_demand_is_computed_once_for_each_version(store: Store) -> None:
    asked: list[str] = []
    event.listen(store._database._engine, "before_cursor_execute", lambda *details: asked.append(details[2]))

    def sums() -> int:
        return sum("sum(" in statement for statement in asked)

    for seen in range(1, 4):
        submitted(store, 1, gpus=2)
        for _ in range(3):
            assert store.waiting_demand()["gpus"] == QueuedDemand(2.0 * seen, seen)
        assert sums() == seen
    with store.together():
        assert store.waiting_demand()["gpus"].jobs == 3
    assert sums() == 3


def test_what_is_held_is_read_once_for_each_version(store: Store) -> None:
    asked: list[str] = []
    event.listen(store._database._engine, "before_cursor_execute", lambda *details: asked.append(details[2]))
    first, second = (*submitted(store), *submitted(store, user="bob"))
    for opened, held in (([], ()), ([first], (first,)), ([second], (first, second))):
        store.commit(StoreChanges(opened=[replace(HELD, job=job) for job in opened]))
        asked.clear()
        for _ in range(3):
            assert tuple(one.job for one in store.held_now()) == held
            assert tuple(store.holders(None)) == held
            assert set(store.holders("bob")) == {second}.intersection(held)
        assert sum("allocation_intervals" in statement for statement in asked) == 2


def test_use_by_tenant_is_of_one_user_or_of_all(store: Store) -> None:
    first, second = (*submitted(store, tenant="a"), *submitted(store, tenant="a", user="bob"))
    submitted(store)
    changes = StoreChanges(
        jobs={job: {"state": State.RUNNING, "attained_gpu_seconds": 5.0} for job in (first, second)},
        opened=[replace(HELD, job=first), replace(HELD, job=second)],
    )
    store.commit(changes)
    half = HELD.allocation.gpus
    nameless = TenantUse("", 1, 0, 1, 0, 0.0)
    assert store.use_by_tenant(None) == [nameless, TenantUse("a", 2, 2, 0, 0, 10.0, 2 * half)]
    assert store.use_by_tenant("ann") == [nameless, TenantUse("a", 1, 1, 0, 0, 5.0, half)]
    assert store.use_by_tenant("bob") == [TenantUse("a", 1, 1, 0, 0, 5.0, half)]
    assert {job: holder.tenant for job, holder in store.holders(None).items()} == {first: "a", second: "a"}


def test_labels_and_lines_of_a_kind_are_those_of_the_jobs(store: Store) -> None:
    first, second = (*submitted(store, name="one"), *submitted(store, user="bob", name="two"))
    changes = StoreChanges(jobs={second: {"state": State.FAILED, "finished": 7.0}})
    for job, time, kind in ((first, 1.0, "a"), (first, 3.0, "b"), (second, 2.0, "a"), (first, 2.0, "a")):
        changes.event(job, time, kind, "d")
    store.commit(changes)
    assert store.labels_of([second]) == {second: JobLabel("bob", "two", State.FAILED, 7.0)}
    assert store.events_of([first], ["a"], since=2.0) == [Event(first, 2.0, "a", "d")]
    assert [one.job for one in store.events_of([first, second], {"a", "b"}, since=2.0)] == [
        first,
        second,
        first,
    ]


def test_a_stored_request_is_read_though_new_rules_refuse_it(url: str, store: Store) -> None:
    submitted(store, 2)
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        of_then = {"name": "", "command": ["a", "b"], "directory": "relative", "gpus": 0, "gone": 1}
        changed = text("UPDATE jobs SET request = :then WHERE id = 1")
        connection.execute(changed, {"then": json.dumps(of_then)})
    engine.dispose()
    row, other = store.living()
    assert other.request == a_request()
    assert (row.request.name, row.request.command, row.request.gpus) == ("", ("a", "b"), 0)
    assert row.request.grace_seconds == a_request().grace_seconds
    assert store.request_state(1, StateRequest.CANCEL) is not None


def test_many_threads_submit_at_once(store: Store) -> None:
    def client(number: int) -> list[int]:
        return [job for count in (1, 3, 1) for job in submitted(store, count, name=f"client {number}")]

    with ThreadPoolExecutor(8) as threads:
        reply = list(threads.map(client, range(8)))
    assert sorted(job for jobs in reply for job in jobs) == list(range(1, 41))
    for number, jobs in enumerate(reply):
        assert jobs == sorted(jobs)
        assert [row.id for row in store.jobs(name=f"client {number}")] == jobs


LIVING = (State.QUEUED, State.RUNNING, State.HELD)
ENDED = (State.COMPLETED, State.FAILED, State.CANCELLED)
SENSELESS = {
    *((state, None, requested) for state in ENDED for requested in StateRequest),
    *(
        (state, StateRequest.CANCEL, requested)
        for state in LIVING
        for requested in (StateRequest.HOLD, StateRequest.RELEASE)
    ),
    (State.HELD, None, StateRequest.HOLD),
    (State.QUEUED, None, StateRequest.RELEASE),
    (State.RUNNING, None, StateRequest.RELEASE),
}


def test_a_state_request_is_noted_if_the_job_accepts_it(store: Store) -> None:
    cases = [
        (state, before, requested)
        for state in LIVING
        for before in (None, *StateRequest)
        for requested in StateRequest
    ]
    cases += [(state, None, requested) for state in ENDED for requested in StateRequest]
    # A request that its owner could not have made is no case.
    cases = [case for case in cases if (case[0], None, case[1]) not in SENSELESS]
    for state, before, requested in cases:
        (job,) = submitted(store, held=state == State.HELD)
        store.commit(StoreChanges(jobs={job: {"state": state}}))
        if before is not None:
            store.request_state(job, before)
        if (state, before, requested) in SENSELESS:
            with pytest.raises(InputError, match=f"job {job}: it "):
                store.request_state(job, requested)
            expected = before
        else:
            answer = store.request_state(job, requested, by="ann")
            assert answer is not None
            assert answer.state_request == requested
            expected = requested
        row = store.job(job)
        assert row is not None
        assert (row.state, row.state_request) == (state, expected)
    assert store.request_state(10_000, StateRequest.CANCEL) is None


def test_a_state_request_is_noted_once_with_its_user(store: Store) -> None:
    (job,) = submitted(store)
    store.request_state(job, StateRequest.HOLD, by="ann")
    store.request_state(job, StateRequest.HOLD, by="ann")
    kinds = [(event.kind, event.detail) for event in store.events(job)]
    assert kinds == [("submitted", ""), ("hold", "asked by ann")]
    assert [row.id for row in store.state_requests()] == [job]


def test_a_request_that_comes_while_another_is_carried_out_stays(store: Store) -> None:
    jobs = submitted(store, 2)
    for job in jobs:
        store.request_state(job, StateRequest.HOLD)
    seen = store.state_requests()
    store.request_state(jobs[1], StateRequest.CANCEL)
    store.commit(
        StoreChanges(
            jobs={job: {"state": State.HELD} for job in jobs},
            carried_out={row.id: row.state_request for row in seen if row.state_request},
        )
    )
    assert [(row.id, row.state_request) for row in store.state_requests()] == [(jobs[1], StateRequest.CANCEL)]
    with pytest.raises(ValueError, match="state_request cannot be changed by a commit"):
        store.commit(StoreChanges(jobs={jobs[0]: {"state_request": None}}))


def test_what_the_controller_writes_comes_back(store: Store) -> None:
    submitted(store, 2)
    fields: dict[str, Any] = {
        "state": State.RUNNING,
        "phase": Phase.STARTING,
        "epoch": 2,
        "first_start": 1.0,
        "last_start": 2.0,
        "last_stop": 1.5,
        "steps_done": 0.1,
        "steps_per_second": 1e9,
        "run_seconds": 3.0,
        "attained_gpu_seconds": 4.0,
        "restart_seconds": 5.0,
        "preemptions": 6,
        "moves": 7,
        "deaths": 8,
        "reason": "no_gpus",
        "reason_parameters": {"needs": 2.0, "free": 1.0},
        "reason_since": 9.0,
        "status": -9,
        "message": "killed",
        "finished": 10.0,
    }
    before = store.job(1)
    assert before is not None
    waited = PendingInterval(1, "no_gpus", {"needs": 2.0, "free": 1.0}, 0.0, 1.0)
    decision = {name: float(number) for number, name in enumerate(DECISIONS)}
    changes = StoreChanges(
        jobs={1: fields, 2: {"message": "other"}},
        opened=[HELD, replace(HELD, allocation=NodeAllocation("m", (), 1.5))],
        decisions=[decision, decision | {"value": float("nan"), "bound": None}],
        pending=[waited, replace(waited, job=2)],
        events=[Event(1, 3.0, "started", "n")],
        scheduler_state=b"\x00state",
    )
    store.commit(changes)
    assert store.job(1) == replace(before, **fields)
    assert store.allocation_intervals(1) == store.allocation_intervals(open_only=True) == changes.opened
    assert [list(row) for row in store.decisions()] == [list(DECISIONS)] * 2
    assert list(store.decisions()) == [decision, decision | {"value": None, "bound": None}]
    assert list(store.pending_intervals()) == changes.pending
    assert store.events(1)[1:] == changes.events
    assert store.scheduler_state() == b"\x00state"

    resized = replace(HELD, allocation=replace(HELD.allocation, cpus=3.0), since=5.0)
    store.commit(StoreChanges(closed={(1, 1): 5.0}, opened=[resized], scheduler_state=b"new"))
    assert store.allocation_intervals(open_only=True) == [resized]
    assert store.allocation_intervals() == [*(replace(held, until=5.0) for held in changes.opened), resized]
    assert store.scheduler_state() == b"new"
    assert [row.id for row in store.living()] == [1, 2]


def test_changes_are_written_all_or_not_at_all(store: Store) -> None:
    submitted(store)
    before = store.job(1)
    changes = StoreChanges(jobs={1: {"message": "x"}}, opened=[HELD], events=[Event(99, 0.0, "of no job")])
    with pytest.raises(IntegrityError):
        store.commit(changes)
    assert store.job(1) == before
    assert store.allocation_intervals() == []
    store.commit(replace(changes, events=[]))
    assert len(store.allocation_intervals()) == 1


def test_what_ended_is_forgotten_and_nothing_that_lives(store: Store) -> None:
    submitted(store, 4)
    ended = {job: {"state": State.FAILED, "finished": float(job)} for job in (1, 2, 3)}
    decision = dict.fromkeys(DECISIONS, 0.0)
    changes = StoreChanges(jobs=ended, decisions=[decision | {"time_seconds": float(at)} for at in range(5)])
    for job in range(1, 5):
        changes.opened.append(replace(HELD, job=job))
        changes.pending.append(PendingInterval(job, "no_gpus", {}, 0.0, 1.0))
        changes.event(job, 1.0, "failed")
    store.commit(changes)
    assert [row.id for row in store.ended_before(3.0, after=0, limit=9)] == [1, 2]
    assert [row.id for row in store.ended_before(9.0, after=1, limit=1)] == [2]
    store.forget([])
    store.forget([1, 2])
    assert [row.id for row in store.jobs()] == [held.job for held in store.allocation_intervals()] == [3, 4]
    assert [one.job for one in store.pending_intervals()] == [3, 4]
    assert store.events(1) == []
    store.forget([3, 4])
    assert [row.id for row in store.jobs()] == [held.job for held in store.allocation_intervals()] == [4]
    assert [one.job for one in store.pending_intervals()] == [4]
    assert len(store.events(4)) == 2
    assert [store.forget_decisions(3.0, 2) for _ in range(3)] == [2, 1, 0]
    assert [row["time_seconds"] for row in store.decisions()] == [3.0, 4.0]
    assert submitted(store) == [5]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6, 10, 11, 47])
def test_a_few_of_many_decisions_are_evenly_apart(store: Store, count: int) -> None:
    row = dict.fromkeys(DECISIONS, 0.0)
    store.commit(StoreChanges(decisions=[row | {"time_seconds": float(at)} for at in range(-3, count)]))
    found = store.some_decisions(0.0, 5)
    times = [row["time_seconds"] or 0.0 for row in found]
    apart = {later - earlier for earlier, later in pairwise(times[:-1])}
    assert found == [row for row in store.decisions() if row["time_seconds"] in times]
    assert len(times) <= 5
    assert len(apart) <= 1
    assert times[:1] + times[-1:] == [0.0, count - 1.0] * (count > 0)


def test_decisions_left_out_take_no_memory(store: Store) -> None:
    store.commit(StoreChanges(decisions=[dict.fromkeys(DECISIONS, 0.0)] * 5_000))
    store.some_decisions(0.0, 5)
    tracemalloc.start()
    try:
        assert len(store.some_decisions(0.0, 5)) == 5
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


def test_nodes_are_drained_and_used_again(store: Store) -> None:
    assert store.nodes() == []
    store.drain("b", True)
    store.drain("a", True)
    store.drain("b", False)
    assert [(node.name, node.drained) for node in store.nodes()] == [("a", True), ("b", False)]


def test_tokens_are_kept_when_they_are_revoked(store: Store) -> None:
    token = store.add_token("ann", True, "hash")
    assert store.tokens() == [token]
    revoked = store.revoke(token.id)
    assert revoked is not None
    assert revoked.revoked is not None
    assert store.revoke(token.id) == revoked
    assert store.tokens() == [revoked]
    assert store.revoke(99) is None


def test_all_is_there_when_it_is_opened_again(url: str) -> None:
    first = Store.open(url)
    submitted(first, 2)
    first.commit(StoreChanges(opened=[HELD], scheduler_state=b"s"))
    row, origin = first.job(2), first.origin
    first.close()
    second = Store.open(url)
    assert second.origin == origin
    assert second.job(2) == row
    assert second.allocation_intervals() == [HELD]
    assert submitted(second) == [3]
    second.close()


def test_a_request_of_another_version_is_a_job(store: Store) -> None:
    """It states what this one does not know, and leaves out what it asks for."""
    (job,) = store.submit([Submission("ann", a_request(steps=5))])
    stated = {"name": "old", "command": ["a", "b"], "directory": "/", "gpus": 2, "colour": "red"}
    with store._database.writing() as connection:
        connection.execute(update(JOBS).values(request=json.dumps(stated)))
    row = store.job(job)
    assert row is not None
    assert row.request == a_request(name="old", command=("a", "b"), gpus=2)
    assert row == JobRow(job, "ann", row.request, row.submitted, reason_since=row.submitted)
    assert not hasattr(row.request, "colour")
