"""Nodes that fail: what is lost, what is not, and that a run ends."""

from __future__ import annotations

import math

import numpy as np
import pytest

from muster.problems import InputError
from muster.simulation import Failures
from muster.simulation.failures import FailureClock
from tests.building import cluster_of, column, finishes, job, jobs_of, run

RARE = Failures(mean_seconds_between=1000.0, repair_seconds=50.0)


def failures_of(failures: Failures, node: int, until: float, nodes: int = 1, seed: int = 0) -> list[float]:
    """When a node fails, by the clock that runs are driven by."""
    clock = FailureClock(failures, nodes, seed)
    times = []
    while (at := clock.next_time()) < until:
        times += [at for changed, repaired in clock.due(at) if changed == node and not repaired]
    return times


@pytest.mark.parametrize("restart_cost", [0.0, 7.0])
@pytest.mark.parametrize("every", [30.0, 450.0, 1e6])
def test_a_job_falls_back_to_its_last_checkpoint(every: float, restart_cost: float) -> None:
    """One job on one node, by hand: each failure keeps whole checkpoint intervals of the stretch it ended."""
    work, begun, saved = 1500.0, 0.0, 0.0
    for failure in failures_of(RARE, 0, 1e6):
        if begun + work - saved <= failure:
            break
        saved += math.floor(max(failure - begun, 0.0) / every) * every
        begun = failure + RARE.repair_seconds + restart_cost
    result = run(
        jobs_of(job(0, work)),
        cluster_of(1),
        "fifo",
        failures=RARE,
        checkpoint_seconds=every,
        restart_cost_seconds=restart_cost,
    )
    assert finishes(result) == pytest.approx([begun + work - saved])
    assert column(result, "preemptions")[0] > 0


@pytest.mark.parametrize("order", ["fifo", "las", "srtf+tune"])
def test_lost_work_counts_as_restarts(order: str) -> None:
    """Without restart costs all time beside the work of a job is what failures lost."""
    trace = jobs_of(*(job(at, 1500, gpus=2, model="m5") for at in range(0, 500, 50)))
    result = run(trace, cluster_of(4, 4), order, failures=RARE, checkpoint_seconds=200.0)
    names = ("input_stall_seconds", "compute_seconds", "communication_seconds", "restart_seconds")
    stages = np.array([result.record.jobs[name].to_numpy() for name in names])
    assert stages[3].max() > 0
    assert stages.sum(axis=0) == pytest.approx(result.record.jobs["run_seconds"].to_numpy())
    if order != "srtf+tune":  # which changes their speed
        assert stages[:3].sum(axis=0) == pytest.approx(np.full(10, 1500.0))


def test_only_jobs_of_the_failed_node_are_hit() -> None:
    """A gang over two nodes loses with either; a job on the third goes on, and what the gang held is free."""
    few = Failures(mean_seconds_between=4000.0, repair_seconds=10.0)
    first = {node: failures_of(few, node, 1e6, nodes=3)[0] for node in range(3)}
    trace = jobs_of(job(0, 3000, gpus=4), job(0, 3000, gpus=2))
    result = run(trace, cluster_of(2, 2, 2), "fifo", failures=few, checkpoint_seconds=1e6)
    preempted = column(result, "preemptions")
    assert (preempted[0] > 0) == (min(first[0], first[1]) < 3000)
    if first[2] > 3000:
        assert preempted[1] == 0


@pytest.mark.parametrize("order", ["fifo", "srtf+tune"])
def test_failures_begin_with_the_first_arrival(order: str) -> None:
    """Jobs that arrive in 2026 on a Unix clock see the same failures as from time 0 on."""
    begin = 1_767_225_600.0
    traces = [jobs_of(*(job(first + at, 2000) for at in (0, 50))) for first in (0.0, begin)]
    runs = [run(trace, cluster_of(1, 1), order, failures=RARE) for trace in traces]
    ends = [column(one, "finish_seconds") for one in runs]
    assert [end - begin for end in ends[1]] == pytest.approx(ends[0], abs=1e-4)


def test_same_seed_same_failures_and_another_seed_others() -> None:
    trace = jobs_of(*(job(at, 2000, gpus=2) for at in range(0, 500, 50)))
    ends = [finishes(run(trace, cluster_of(4, 4), "fifo", failures=RARE, seed=seed)) for seed in (1, 1, 2)]
    assert ends[0] == ends[1]
    assert ends[0] != ends[2]


def test_one_nodes_failures_do_not_depend_on_how_many_there_are() -> None:
    assert failures_of(RARE, 0, 1e5) == failures_of(RARE, 0, 1e5, nodes=7)


def test_failures_come_at_the_rate_asked_for() -> None:
    """Mean gap between a repair and the next failure: exponential, so within 4 standard errors."""
    times = np.array(failures_of(RARE, 0, 2e6))
    gaps = np.diff(times) - RARE.repair_seconds
    assert gaps.mean() == pytest.approx(1000.0, abs=4 * 1000.0 / math.sqrt(len(gaps)))


@pytest.mark.parametrize("order", ["fifo", "las", "ftf"])
def test_a_cluster_whose_every_node_fails_still_ends(order: str) -> None:
    often = Failures(mean_seconds_between=60.0, repair_seconds=500.0)
    trace = jobs_of(*(job(at, 120) for at in range(6)))
    result = run(trace, cluster_of(1, 2), order, round_seconds=10.0, failures=often, checkpoint_seconds=20.0)
    assert None not in finishes(result)


def test_failures_that_no_job_survives_are_refused() -> None:
    """A job on two nodes of four GPUs and one checkpoint an hour: it needs a mean of 2 h / log(1000)."""
    trace, nodes = jobs_of(job(0, 7200, gpus=8), job(0, 100)), cluster_of(4, 4)
    said = r"'1000:10'; job 0 works 3600 s .* one of its 2 nodes .* a mean of 1,043 s or more.* --checkpoint 3453 or"
    with pytest.raises(InputError, match=said):
        run(trace, nodes, "fifo", failures=Failures(1000.0, 10.0))
    allowed = (
        {"failures": Failures(1043.0, 10.0)},
        {"failures": Failures(1000.0, 10.0), "checkpoint_seconds": 3453.0},
    )
    for options in allowed:
        assert None not in finishes(run(trace, nodes, "fifo", **options))


def test_jobs_that_end_soon_survive_any_checkpoint() -> None:
    often = Failures(20.0, 10.0)
    assert None not in finishes(
        run(jobs_of(job(0, 100), job(0, 10)), cluster_of(1, 1), "fifo", failures=often)
    )
    limited = [job(0, 1e6, time_limit_seconds=50.0)]
    result = run(jobs_of(*limited), cluster_of(1), "fifo", failures=often, end_at_limit=True)
    assert column(result, "outcome") == ["timed_out"]


def test_a_long_repair_is_waited_for() -> None:
    """An order that is asked every round must not be given up while its only machine is repaired."""
    failure = failures_of(RARE, 0, 1e6)[0]
    long = Failures(RARE.mean_seconds_between, repair_seconds=5000.0)
    trace = jobs_of(job(0, failure + 10), job(0, failure + 10))
    result = run(trace, cluster_of(1), "ftf", round_seconds=1.0, failures=long, checkpoint_seconds=100.0)
    assert None not in finishes(result)


def test_releasing_gpus_of_a_failed_node_come_back_with_it() -> None:
    """Release takes 100 s a GPU; a node that fails meanwhile gives everything back once, after its repair."""
    result = run(
        jobs_of(*(job(at, 90) for at in range(0, 3000, 100))),
        cluster_of(1, 1),
        "fifo",
        failures=RARE,
        release_seconds_per_gpu=100.0,
    )
    assert None not in finishes(result)
