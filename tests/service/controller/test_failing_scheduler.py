"""A scheduler that fails, in whatever way, costs nothing but new starts; it is asked again, and seldom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.registry import build
from muster.service.daemon_status import SCHEDULER
from muster.service.store.rows import State as JobState
from muster.service.store.rows import StateRequest, Submission

from .test_fake_nodes import World, a_job

Twist = Callable[[Snapshot, Decision, State], object]


@dataclass
class Twisted:
    """FIFO, whose answers can be spoilt."""

    twist: Twist | None = None
    asked: int = 0
    name: str = "twisted"

    def describe(self) -> dict[str, Any]:
        return {}

    def initial(self, cluster: Cluster) -> State:
        return build("fifo", {}).initial(cluster)

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        self.asked += 1
        plan, after = build("fifo", {}).decide(snapshot, state)
        if self.twist is None:
            return plan, after
        return self.twist(snapshot, plan, after)  # type: ignore[return-value]


def with_more(snapshot: Snapshot, decision: Decision, job: int, allocation: NodeAllocation) -> Decision:
    """The decision with one more allocation."""
    with snapshot.transaction() as transaction:
        transaction.try_out(decision.changes)
        transaction.put(job, [allocation])
        return decision._replace(changes=transaction.take_changes())


def raises(snapshot: Snapshot, plan: Decision, state: State) -> object:
    raise RecursionError("too deep")


def reason_unknown(snapshot: Snapshot, plan: Decision, state: State) -> object:
    plan.reasons[:] = 99
    return plan, state


def reason_negative(snapshot: Snapshot, plan: Decision, state: State) -> object:
    plan.reasons[:] = -1
    return plan, state


def reasons_too_few(snapshot: Snapshot, plan: Decision, state: State) -> object:
    return plan._replace(reasons=plan.reasons[1:]), state


def figures_too_few(snapshot: Snapshot, plan: Decision, state: State) -> object:
    return plan._replace(reason_b=plan.reason_b[1:]), state


def reasons_as_words(snapshot: Snapshot, plan: Decision, state: State) -> object:
    return plan._replace(reasons=["no_gpus"] * len(snapshot.jobs)), state  # type: ignore[arg-type]


def lease_of_a_stranger(snapshot: Snapshot, plan: Decision, state: State) -> object:
    return plan._replace(lease_ends={4711: 5.0}), state


def wakes_never_known(snapshot: Snapshot, plan: Decision, state: State) -> object:
    return plan._replace(next_wake=nan), state


def value_as_text(snapshot: Snapshot, plan: Decision, state: State) -> object:
    return plan._replace(value="much"), state  # type: ignore[arg-type]


def places_one_that_has_ended(snapshot: Snapshot, plan: Decision, state: State) -> object:
    return with_more(snapshot, plan, ENDED, NodeAllocation(0, (0,), 1.0, 1.0, 0.0)), state


def half_a_gang(snapshot: Snapshot, plan: Decision, state: State) -> object:
    job = int(snapshot.jobs.index[-1])
    return with_more(snapshot, plan, job, NodeAllocation(1, (0, 1), 1.0, 1.0, 0.0)), state


def no_plan(snapshot: Snapshot, plan: Decision, state: State) -> object:
    return None


def memory_that_cannot_be_kept(snapshot: Snapshot, plan: Decision, state: State) -> object:
    return plan, lambda: None


TWISTS = [
    raises,
    reason_unknown,
    reason_negative,
    reasons_too_few,
    figures_too_few,
    reasons_as_words,
    lease_of_a_stranger,
    wakes_never_known,
    value_as_text,
    places_one_that_has_ended,
    half_a_gang,
    no_plan,
    memory_that_cannot_be_kept,
]
ENDED, RUNS, ENDS, CANCELLED, WAITS = 1, 2, 3, 4, 5


def at_work(folder: Path) -> World:
    """Job 1 has ended; one that runs for long, one that ends soon, one that will be cancelled; then one comes."""
    world = World(folder, Twisted())
    world.store.submit([Submission("ann", a_job(steps)) for steps in (2, 10_000, 30, 10_000)])
    for _ in range(10):
        world.turn(1.0)
    return world


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A decision that has to be compiled takes long, and the next one comes so much later."""
    at_work(tmp_path_factory.mktemp("compiled")).store.close()


@pytest.mark.parametrize("fails", [False, True])
def test_it_is_said_while_decisions_are_made(tmp_path: Path, fails: bool) -> None:
    """Pages wait meanwhile; afterwards it is over, whatever the scheduler does."""
    said = []

    def twist(snapshot: Snapshot, plan: Decision, state: State) -> object:
        said.append(served.status.deciding)
        return raises(snapshot, plan, state) if fails else (plan, state)

    served = World(tmp_path, Twisted(twist))
    served.store.submit([Submission("ann", a_job(10))])
    for _ in range(2):
        served.seconds += 1.0
        served.controller.turn()
        assert not served.status.deciding
    assert set(said) == {True}
    served.store.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = at_work(tmp_path)
    assert states(made) == [JobState.COMPLETED, *[JobState.RUNNING] * 3]
    yield made
    made.store.close()


def states(world: World) -> list[JobState]:
    return [row.state for row in world.store.jobs()]


def policy(world: World) -> Twisted:
    assert isinstance(world.policy, Twisted)
    return world.policy


def fails(world: World, seconds: float) -> None:
    world.seconds += seconds
    assert world.controller.turn()
    world.check()


@pytest.mark.parametrize("twist", TWISTS)
def test_jobs_run_on_and_wait_while_the_scheduler_fails(world: World, twist: Twist) -> None:
    policy(world).twist = twist
    world.store.submit([Submission("ann", a_job(20))])
    fails(world, 1.0)
    assert world.status.conditions.keys() == {SCHEDULER}
    failure = world.status.failing
    assert failure is not None
    assert failure.count == world.status.decision_failures == 1
    assert failure.since >= 11.0
    world.store.request_state(CANCELLED, StateRequest.CANCEL)
    for _ in range(10):
        fails(world, 3.0)
    waits = JobState.QUEUED
    assert states(world) == [
        JobState.COMPLETED,
        JobState.RUNNING,
        JobState.COMPLETED,
        JobState.CANCELLED,
        waits,
    ]
    policy(world).twist = None
    for _ in range(20):
        world.seconds += 4.0
        world.controller.turn()
        if world.status.failing is None:
            break
    assert not world.status.condition
    world.turn(1.0)
    assert states(world)[RUNS - 1] is states(world)[WAITS - 1] is JobState.RUNNING
    assert world.store.scheduler_state() is not None
    world.die()
    world.turn(1.0)


def test_a_failing_scheduler_is_retried_less_and_less_often(world: World) -> None:
    policy(world).twist = raises
    world.store.submit([Submission("ann", a_job(10_000))])
    asked = []
    with capture_logs() as logs:
        for _ in range(500):
            before = policy(world).asked
            fails(world, 0.5)
            if policy(world).asked > before:
                asked.append(world.seconds)
    pauses = np.diff(asked)
    # In between a job ends, which is news; but for that a try comes twice as long after the one before it.
    assert 60.0 <= pauses.max() <= 65.0
    assert pauses.min() >= 1.0
    assert len(asked) <= 12
    tracebacks = [entry for entry in logs if entry.get("exc_info")]
    assert len(tracebacks) == 1, "one for each kind of failure is enough"
    assert sum(entry["event"] == "decision failed" for entry in logs) == len(asked)
    with capture_logs():
        before = policy(world).asked
        for _ in range(50):
            world.store.submit([Submission("ann", a_job(10))])
            fails(world, 0.2)
    assert 2 <= policy(world).asked - before <= 10, "ten seconds in which there is always something new"


def test_a_recovered_scheduler_gets_the_triggers_it_missed(world: World) -> None:
    """A trigger is not lost with the decision that failed."""
    seen: list[int] = []

    def notes(snapshot: Snapshot, plan: Decision, state: State) -> object:
        seen.append(snapshot.triggers)
        if len(seen) < 3:
            raise ValueError("not yet")
        return plan, state

    policy(world).twist = notes
    world.store.submit([Submission("ann", a_job(10_000))])
    for _ in range(10):
        fails(world, 1.0)
    assert len(seen) == 3
    assert seen[0] == seen[0] & seen[1] == seen[0] & seen[2] != 0


def test_a_failing_scheduler_is_asked_again_after_1_2_4_to_60_s(tmp_path: Path) -> None:
    scheduler = Twisted(raises)
    world = World(tmp_path, scheduler)
    world.store.submit([Submission("ann", a_job(10))])
    asked: list[float] = []
    while len(asked) < 9:
        before = scheduler.asked
        fails(world, 0.5)
        if scheduler.asked > before:
            asked.append(world.seconds)
    assert np.diff(asked).tolist() == [1, 2, 4, 8, 16, 32, 60, 60]
    world.store.close()
