"""Whatever is done to a store in whatever order, it is what a few dictionaries are."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster.cluster.ledger import NodeAllocation
from muster.problems import InputError
from muster.service.store import Store
from muster.service.store.rows import (
    ENDED,
    AllocationInterval,
    Event,
    JobRow,
    PendingInterval,
    State,
    StateRequest,
    StepsDone,
    StoreChanges,
    Submission,
)

from ..serving import a_request

USERS = ("ann", "bob")
FIGURES = some.floats(-1e9, 1e9)


@functools.cache
def empty_store() -> bytes:
    """Made once, as that takes longer than most examples."""
    with tempfile.TemporaryDirectory() as folder:
        Store.open(f"sqlite:///{folder}/muster.db").close()
        return (Path(folder) / "muster.db").read_bytes()


class StoreAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        (Path(self.folder.name) / "muster.db").write_bytes(empty_store())
        self.url = f"sqlite:///{self.folder.name}/muster.db"
        self.store = Store.open(self.url)
        self.jobs: dict[int, JobRow] = {}
        self.held: list[AllocationInterval] = []
        self.pending: list[PendingInterval] = []
        self.events: list[Event] = []
        self.steps: list[StepsDone] = []
        self.drained: dict[str, bool] = {}
        self.state: bytes | None = None

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    @rule(user=some.sampled_from(USERS), count=some.integers(1, 3), held=some.booleans())
    def submit(self, user: str, count: int, held: bool) -> None:
        request = a_request(name=f"of {user}", held=held)
        ids = self.store.submit([Submission(user, request)] * count)
        assert ids == list(range(len(self.jobs) + 1, len(self.jobs) + 1 + count))
        for job in ids:
            found = self.store.job(job)
            assert found is not None
            state = State.HELD if held else State.QUEUED
            self.jobs[job] = JobRow(
                job, user, request, found.submitted, state=state, reason_since=found.submitted
            )

    @precondition(lambda self: self.jobs)
    @rule(data=some.data(), requested=some.sampled_from(StateRequest))
    def request_state(self, data: some.DataObject, requested: StateRequest) -> None:
        job = data.draw(some.sampled_from(sorted(self.jobs)))
        row = self.jobs[job]
        try:
            self.store.request_state(job, requested, "ann")
        except InputError:
            return  # test_store.py checks which are refused.
        if row.state_request != requested:
            self.jobs[job] = replace(row, state_request=requested)
            self.events.append(Event(job, 0.0, requested, "asked by ann"))

    @precondition(lambda self: self.jobs)
    @rule(data=some.data(), time=FIGURES, state=some.none() | some.binary(max_size=3))
    def commit(self, data: some.DataObject, time: float, state: bytes | None) -> None:
        chosen = data.draw(some.lists(some.sampled_from(sorted(self.jobs)), unique=True, max_size=3))
        changes = StoreChanges(scheduler_state=state)
        for job in chosen:
            row = self.jobs[job]
            fields: dict[str, Any] = data.draw(
                some.fixed_dictionaries(
                    {},
                    optional={
                        "state": some.sampled_from(State),
                        "epoch": some.integers(0, 5),
                        "steps_done": FIGURES,
                        "finished": some.none() | FIGURES,
                        "message": some.text(some.characters(exclude_characters="\0", codec="utf-8")),
                        "reason_parameters": some.dictionaries(some.sampled_from("ab"), FIGURES),
                    },
                )
            )
            changes.job(job, **fields)
            if row.state_request is not None and data.draw(some.booleans()):
                done = changes.carried_out[job] = data.draw(some.sampled_from(StateRequest))
                row = replace(row, state_request=None if done == row.state_request else row.state_request)
            self.jobs[job] = replace(row, **fields)
            changes.closed[job, row.epoch] = time
            changes.opened.append(
                AllocationInterval(job, row.epoch, NodeAllocation("n", (1, 2), time, 2.0, 0.0), since=time)
            )
            changes.pending.append(PendingInterval(job, "no_gpus", {"needs": time}, time, time + 1))
            changes.event(job, time, "started", "here")
            changes.steps.append(StepsDone(job, row.epoch, time, abs(time)))
        self.store.commit(changes)
        self.held = [
            replace(held, until=time)
            if held.until is None and (held.job, held.epoch) in changes.closed
            else held
            for held in self.held
        ] + changes.opened
        self.pending += changes.pending
        self.events += changes.events
        self.steps += changes.steps
        self.state = self.state if state is None else state

    @rule(node=some.sampled_from("mn"), drained=some.booleans())
    def drain(self, node: str, drained: bool) -> None:
        self.store.drain(node, drained)
        self.drained[node] = drained

    @rule()
    def open_again(self) -> None:
        origin = self.store.origin
        self.store.close()
        self.store = Store.open(self.url)
        assert self.store.origin == origin

    @invariant()
    def jobs_are_those(self) -> None:
        rows = list(self.jobs.values())
        assert self.store.jobs() == rows
        living = [row for row in rows if row.state not in ENDED]
        assert self.store.living() == living
        assert self.store.state_requests() == [row for row in living if row.state_request is not None]
        assert self.store.counts() == {state: sum(row.state == state for row in rows) for state in State}
        for user in USERS:
            queued = [row for row in rows if row.user == user and row.state == State.QUEUED]
            assert (
                self.store.jobs([State.QUEUED], user, f"of {user}", after=1, limit=2)
                == [row for row in queued if row.id > 1][:2]
            )

    @invariant()
    def history_is_that(self) -> None:
        assert self.store.allocation_intervals() == self.held
        assert self.store.allocation_intervals(open_only=True) == [
            held for held in self.held if held.until is None
        ]
        assert list(self.store.pending_intervals()) == self.pending
        assert self.store.scheduler_state() == self.state
        assert {node.name: node.drained for node in self.store.nodes()} == self.drained
        for job in list(self.jobs)[:2]:
            found = [(event.kind, event.detail) for event in self.store.events(job)[1:]]
            assert found == [(event.kind, event.detail) for event in self.events if event.job == job]
            assert self.store.steps_done(job) == [one for one in self.steps if one.job == job]


TestStoreAgainstDict = StoreAgainstDict.TestCase
TestStoreAgainstDict.settings = settings(
    max_examples=15, stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
