"""A decision that is decided again from its file is the decision that was carried out."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.runtime.snapshots.decided import differences, other_schedule
from muster.runtime.snapshots.file import SnapshotFile
from muster.runtime.snapshots.replay import replay
from muster.runtime.snapshots.restored import RestoredSnapshot
from muster.runtime.snapshots.taking import SnapshotTaker
from muster.schedulers.contract import Decision, Scheduler, Snapshot, State
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.test_shared_uplinks import NARROW
from tests.simulation.fixed_runs import RUNS, FixedRun
from tests.simulation.random_runs import case_of
from tests.simulation.test_variable_batches import mixed, model_of

HERE = "a file"


class EveryFew(SnapshotTaker):
    """Takes a snapshot of every 7th decision, and says what the nodes were like."""

    def __init__(self, scheduler: Scheduler, at_most: int = 3) -> None:
        super().__init__(scheduler, 0.0)
        self.at_most, self.asked = at_most, 0
        self.taken: list[tuple[SnapshotFile, list[bytes]]] = []

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        self.asked += 1
        if self.asked % 7 != 1 or len(self.taken) == self.at_most:
            return self._scheduler.decide(snapshot, state)
        nodes = node_bytes(snapshot)
        one = SnapshotTaker(self._scheduler, 0.0)
        answer = one.decide(snapshot, state)
        assert one.file is not None
        self.taken.append((one.file, nodes))
        return answer


def node_bytes(snapshot: Snapshot) -> list[bytes]:
    books = snapshot.ledger.books
    return [books.nodes.tobytes(), books.devices.tobytes()]


def check(taken: list[tuple[SnapshotFile, list[bytes]]]) -> None:
    """Each file gives the nodes and the decision that there were."""
    assert taken
    for file, nodes in taken:
        read = SnapshotFile.model_validate(json.loads(file.text()))
        assert read == file
        assert node_bytes(RestoredSnapshot(read, HERE).snapshot()) == nodes
        again = replay(read, HERE)
        assert again.remembers
        assert again.decision == file.decision
        assert not differences(again.decision, file.decision)
        assert not other_schedule(again.decision, file.decision)


SCHEDULERS = (
    "gittins+",
    "dally-plus on",
    "smd on",
    "las+tune-plus",
    "srtf-speed+joint",
    "gandiva on",
    "release_seconds",
    "contention",
    "multifactor+easy",
)
CHOSEN = [next(run for run in RUNS if name in run.name) for name in SCHEDULERS]


@pytest.mark.parametrize("fixed", CHOSEN, ids=lambda one: one.name)
def test_replay_decides_as_the_run_did(fixed: FixedRun) -> None:
    takers: list[EveryFew] = []

    def wrap(scheduler: Scheduler) -> Scheduler:
        takers.append(EveryFew(scheduler))
        return takers[0]

    fixed.simulated(wrap)
    check(takers[0].taken)


@pytest.mark.parametrize("times_the_batch", [None, 8])
def test_replay_chooses_sizes_and_batches_as_the_run_did(times_the_batch: int | None) -> None:
    taker = EveryFew(build("gittins+joint"))
    run(jobs_of(*mixed(5, times_the_batch)), cluster_of(4, 4), taker, models=model_of(50.0, 5000.0))
    check(taker.taken)


def test_replay_knows_that_jobs_slow_each_other_on_uplinks() -> None:
    taker = EveryFew(build("gittins+joint"), at_most=100)
    simulate(NARROW.trace(60, 61), NARROW.shape.cluster(), taker, Options(contention=True))
    forms = [RestoredSnapshot(file, HERE).snapshot().forms for file, _ in taker.taken]
    assert all(each is not None and each.contention for each in forms)
    check(taker.taken)


@pytest.mark.parametrize("scheduler", ["oasis", "smd", "optimus"])
@pytest.mark.parametrize("worth", [None, 5.0])
def test_replay_knows_what_gangs_are_worth(scheduler: str, worth: float | None) -> None:
    target = None if worth is None else 400.0
    rows = [job(60.0 * at, 300.0, 1 + at % 4) for at in range(6)]
    trace = jobs_of(*(row | {"utility_priority": worth, "utility_target_seconds": target} for row in rows))
    taker = EveryFew(build(scheduler))
    run(trace, cluster_of(4, 4), taker)
    check(taker.taken)


@given(number=st.integers(0, 100_000))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_replay_decides_as_random_runs_did(number: int) -> None:
    case = case_of(number)
    taker = EveryFew(build(case.scheduler, case.settings), at_most=2)
    simulate(case.trace, case.cluster, taker, case.options)
    check(taker.taken)
