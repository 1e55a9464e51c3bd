"""How intervals have ended: cases by hand, and a daemon's own counts of what it has stopped and moved."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.interval_ends import KINDS, IntervalEnd, interval_ends
from muster.service.store.rows import (
    ASKED_TO_STOP,
    STARTED,
    AllocationInterval,
    Event,
    JobLabel,
    Phase,
    State,
    StopReason,
)

from .controller.test_fake_nodes import World
from .pages.test_moments import some_load

HERE = NodeAllocation("node-0", (0,), 1.0, 1.0, 0.0)
RUNNING = JobLabel("ann", "job", State.RUNNING, None)


def interval(epoch: int, since: float, until: float | None) -> AllocationInterval:
    return AllocationInterval(1, epoch, HERE, since, until)


def stopped(since: float, until: float, why: str, kind: str = "stopped") -> list[Event]:
    """The history of a start that was asked to stop a second before its end."""
    return [Event(1, since, STARTED), Event(1, until - 1.0, ASKED_TO_STOP, why), Event(1, until, kind)]


@pytest.mark.parametrize(
    ("why", "end"),
    [
        (StopReason.PREEMPTED, IntervalEnd.PREEMPTED),
        (StopReason.MOVE, IntervalEnd.MOVED),
        (StopReason.HOLD, IntervalEnd.HELD),
        (StopReason.TAKEN_BACK, IntervalEnd.TAKEN_BACK),
        ("", IntervalEnd.STOPPED),
    ],
)
def test_a_start_that_was_asked_to_stop_says_why(why: str, end: IntervalEnd) -> None:
    """The next start begins at the moment at which it ends, and goes on."""
    for kind in ("stopped", "killed"):
        events = [*stopped(0.0, 5.0, why, kind), Event(1, 5.0, STARTED)]
        found = interval_ends([interval(1, 0.0, 5.0), interval(2, 5.0, None)], {1: RUNNING}, events)
        assert found == [end, None]


def test_a_start_that_goes_on_was_resized() -> None:
    events = stopped(0.0, 9.0, StopReason.PREEMPTED)
    found = interval_ends([interval(1, 0.0, 4.0), interval(1, 4.0, 9.0)], {1: RUNNING}, events)
    assert found == [IntervalEnd.RESIZED, IntervalEnd.PREEMPTED]


@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED, State.CANCELLED, State.TIMED_OUT])
def test_the_last_one_ends_as_the_job(state: State) -> None:
    """Whatever it was asked to just before."""
    label = JobLabel("ann", "job", state, 9.0)
    events = [*stopped(0.0, 4.0, StopReason.MOVE), *stopped(4.0, 9.0, StopReason.PREEMPTED)]
    found = interval_ends([interval(1, 0.0, 4.0), interval(2, 4.0, 9.0)], {1: label}, events)
    assert found == [IntervalEnd.MOVED, IntervalEnd(state.value)]


def test_a_job_cancelled_while_waiting_was_preempted_before() -> None:
    label = JobLabel("ann", "job", State.CANCELLED, 9.0)
    found = interval_ends([interval(1, 0.0, 4.0)], {1: label}, stopped(0.0, 4.0, StopReason.PREEMPTED))
    assert found == [IntervalEnd.PREEMPTED]


@pytest.mark.parametrize("kind", ["lost", "killed", "stopped"])
def test_a_start_that_ends_by_itself_has_died(kind: str) -> None:
    """Though the one before it was asked to stop."""
    events = [*stopped(0.0, 4.0, StopReason.HOLD), Event(1, 4.0, STARTED), Event(1, 9.0, kind)]
    found = interval_ends([interval(1, 0.0, 4.0), interval(2, 4.0, 9.0)], {1: RUNNING}, events)
    assert found == [IntervalEnd.HELD, IntervalEnd.DIED]


def test_ends_are_those_that_the_daemon_counts(tmp_path: Path) -> None:
    """Preemptions and moves of every job; an interval was resized if its start has another one from then on."""
    world = World(tmp_path, "las+tune-plus")
    chance, draining = random.Random(11), set[str]()
    for _ in range(60):
        some_load(world, chance, draining)
    rows = {row.id: row for row in world.store.jobs(limit=1000)}
    intervals = world.store.allocation_intervals()
    ends = interval_ends(
        intervals, world.store.labels_of(rows), world.store.events_of(rows, KINDS, since=0.0)
    )
    begins = {(one.job, one.epoch, one.since) for one in intervals}
    starts: dict[tuple[int, IntervalEnd], set[int]] = defaultdict(set)
    for one, end in zip(intervals, ends, strict=True):
        assert (end is None) == (one.until is None)
        assert (end is IntervalEnd.RESIZED) == ((one.job, one.epoch, one.until) in begins)
        if end is not None:
            starts[one.job, end].add(one.epoch)
    for job, row in rows.items():
        counted = len(starts[job, IntervalEnd.PREEMPTED]), len(starts[job, IntervalEnd.MOVED])
        if row.phase is not Phase.STOPPING and row.state is not State.COMPLETED:
            assert counted == (row.preemptions, row.moves), job
        assert (row.state is State.COMPLETED) == bool(starts[job, IntervalEnd.COMPLETED])
    assert {end for _, end in starts} >= {
        IntervalEnd.COMPLETED,
        IntervalEnd.CANCELLED,
        IntervalEnd.PREEMPTED,
        IntervalEnd.RESIZED,
        IntervalEnd.HELD,
    }
    world.store.close()
