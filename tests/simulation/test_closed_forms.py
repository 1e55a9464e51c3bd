"""Queues whose answers are known without a simulator."""

from __future__ import annotations

from itertools import pairwise, permutations
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.ledger import NodeAllocation
from muster.schedulers.contract import Decision, Snapshot, State, Trigger
from muster.schedulers.reasons import NO_GPUS
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.test_example_policies import Toy
from tests.simulation.cases import shipped

arrivals = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=10)
"""Submission and duration of each job."""


@settings(max_examples=30, deadline=None)
@given(queue=arrivals, order=st.sampled_from(["fifo", "fifo-strict"]))
def test_one_gpu_is_lindleys_recursion(queue: list[tuple[int, int]], order: str) -> None:
    """The wait of the next is the wait of this one + its service - the gap, or nothing."""
    queue = sorted(queue, key=lambda entry: entry[0])
    result = run(jobs_of(*(job(*entry) for entry in queue)), cluster_of(1), order)
    waits = [0.0]
    for (submit, duration), (following, _) in pairwise(queue):
        waits.append(max(0.0, waits[-1] + duration - (following - submit)))
    assert column(result, "wait_seconds") == pytest.approx(waits, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(queue=st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=5))
def test_srtf_is_the_best_mean_on_one_gpu(queue: list[tuple[int, int]]) -> None:
    """No preemptive schedule does better: each is some fixed priority list served at every moment."""
    best = min(sum(by_list(queue, ranking)) for ranking in permutations(range(len(queue))))
    result = run(jobs_of(*(job(*entry) for entry in queue)), cluster_of(1), "srtf")
    assert sum(column(result, "jct_seconds")) == pytest.approx(best)


def by_list(queue: list[tuple[int, int]], ranking: tuple[int, ...]) -> list[int]:
    """JCT of each job when every second goes to the first of the ranking that is there."""
    left = [duration for _, duration in queue]
    done = [0] * len(queue)
    now = 0
    while any(left):
        for number in ranking:
            if left[number] and queue[number][0] <= now:
                left[number] -= 1
                done[number] = now + 1 - queue[number][0]
                break
        now += 1
    return done


@pytest.mark.parametrize("quantum", [8.0, 2.0, 0.5])
def test_las_shares_the_processor_as_the_quantum_shrinks(quantum: float) -> None:
    """Alone for 40 s; then the newcomer until it has had as much; then both at half speed; then one alone."""
    trace = jobs_of(job(0, 100), job(40, 100))
    result = run(trace, cluster_of(1), "las", {"quantum_seconds": str(quantum)})
    # Processor sharing from 80 s, when each has 40 of its 100 s: both end at 200 s.
    first, second = column(result, "finish_seconds")
    assert max(first, second) == pytest.approx(200)
    assert min(first, second) == pytest.approx(200, abs=2 * quantum)


def test_a_job_under_protection_has_its_whole_turn() -> None:
    """A minimum below the quantum changes nothing: no decision comes in the middle of a turn."""
    three = [job(0, 600, min_runtime_seconds=least) for least in (1.0, 20.0, 59.0)]
    turns = run(jobs_of(*three), cluster_of(1), "las", {"quantum_seconds": "60"}, restart_cost_seconds=5)
    plain = [job(0, 600)] * 3
    as_ever = run(jobs_of(*plain), cluster_of(1), "las", {"quantum_seconds": "60"}, restart_cost_seconds=5)
    assert column(turns, "preemptions") == column(as_ever, "preemptions")
    assert column(turns, "finish_seconds") == column(as_ever, "finish_seconds")


@settings(max_examples=20, deadline=None)
@given(queue=arrivals, order=st.sampled_from(shipped("queue_order")))
def test_a_machine_never_idles_while_somebody_waits(queue: list[tuple[int, int]], order: str) -> None:
    """Work conservation: with one-GPU jobs on one GPU the busy periods are the same for every order."""
    result = run(jobs_of(*(job(*entry) for entry in queue)), cluster_of(1), order)
    clear = 0.0
    for submit, duration in sorted(queue):
        clear = max(clear, submit) + duration
    assert max(column(result, "finish_seconds")) == pytest.approx(clear)
    assert sum(column(result, "run_seconds")) == pytest.approx(sum(duration for _, duration in queue))


def test_gangs_of_one_size_are_a_queue_of_many_servers() -> None:
    """2-GPU jobs on 4 GPUs are two servers; D/D/2 by hand."""
    result = run(jobs_of(*(job(at, 30, gpus=2) for at in (0, 5, 10, 15, 100))), cluster_of(4), "fifo")
    assert column(result, "wait_seconds") == pytest.approx([0, 0, 20, 20, 0])


def test_a_release_starts_when_the_job_ends_not_at_a_round() -> None:
    # The job ends at 10, its GPU is free at 40; the decision at 60 uses it. Counted from the round at 60, the release
    # would last until 90 and the next job would start at 120.
    trace = jobs_of(job(0, 10), job(0, 10))
    result = run(trace, cluster_of(1), "fifo", round_seconds=60.0, release_seconds_per_gpu=30.0)
    assert column(result, "start_seconds") == [0, 60]


@pytest.mark.parametrize("scheduler", ["fifo", "fifo+joint"])
@pytest.mark.parametrize(
    ("round_seconds", "arrival", "start"), [(5.1, 255, 260.1), (5.1, 76.5, 76.5), (0.7, 63, 63.7)]
)
def test_a_round_is_never_before_the_arrival(
    scheduler: str, round_seconds: float, arrival: float, start: float
) -> None:
    """50 rounds of 5.1 s end at 254.99999999999997; 15 of them end at 76.5, though 76.5 / 5.1 is above 15."""
    trace = jobs_of(job(0, 10), job(arrival, 10))
    result = run(trace, cluster_of(1), scheduler, round_seconds=round_seconds)
    assert column(result, "start_seconds") == pytest.approx([0, start])


class Leases(Toy):
    """Runs one job, gives it a lease of 10 s once, and notes when and why it is asked."""

    asked: list[tuple[float, int]]

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        self.asked.append((snapshot.now, snapshot.triggers))
        with snapshot.transaction() as transaction:
            if snapshot.now == 0:
                transaction.put(0, [NodeAllocation(0, (0,))])
            ends = {0: 10.0 if snapshot.now == 0 else inf}
            return self.plan(snapshot, transaction, NO_GPUS, stable_until=inf, lease_ends=ends), state


@pytest.mark.parametrize("round_seconds", [None, 5.0])
def test_a_scheduler_learns_of_a_lease_end_at_that_moment(round_seconds: float | None) -> None:
    scheduler = Leases()
    scheduler.asked = []
    run(jobs_of(job(0, 100)), cluster_of(1), scheduler, round_seconds=round_seconds)
    assert [now for now, triggers in scheduler.asked if triggers & Trigger.LEASE_END] == [10.0]
