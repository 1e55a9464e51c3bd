"""What an interruption costs, and that composed schedulers interrupt a job only where it pays."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.report.notes import assumptions
from muster.schedulers.interruption import WORK_PER_INTERRUPTION, repays
from muster.schedulers.registry import build
from muster.simulation import Options, rules_named, simulate
from tests.building import cluster_of, column, finishes, job, jobs_of, run

ORDERS = [
    *("las", "srtf", "srsf", "srtf-speed", "ftf", "priority", "gittins", "2d-las", "srsf-placed", "drf"),
    *("las+joint", "srtf+joint"),
]


def starts(result: Any) -> list[int]:
    """Of each job, by number."""
    return [1 + stops for stops in column(result, "preemptions")]


def test_a_simulation_charges_a_restart_by_default() -> None:
    trace = jobs_of(job(0, 4000), job(1000, 100))
    done = simulate(trace, cluster_of(1), build("srtf"))
    assert done.record.run["settings"]["restart_cost_seconds"] == 60.0
    assert finishes(done) == [4160.0, 1100.0]
    assert column(done, "restart_seconds") == [60.0, 0.0]


def test_published_rules_charge_no_restart_unless_asked() -> None:
    rules = rules_named("synergy-published")
    assert Options(rules=rules).restart_cost_seconds == 0.0
    assert Options(rules=rules, restart_cost_seconds=5.0).restart_cost_seconds == 5.0


def test_the_trace_states_a_cost_for_single_jobs() -> None:
    rows = job(0, 4000, restart_cost_seconds=7.0), job(1000, 100), job(0, 4000, restart_cost_seconds=0.0)
    done = run(jobs_of(*rows), cluster_of(1), "srtf", restart_cost_seconds=20.0)
    assert column(done, "restart_seconds")[:2] == [7.0, 0.0]


@pytest.mark.parametrize("order", ["las", "srtf", "gittins", "ftf"])
def test_equal_jobs_run_one_after_the_other_by_default(order: str) -> None:
    done = simulate(jobs_of(*[job(n, 600) for n in range(3)]), cluster_of(1), build(order), Options())
    assert starts(done) == [1, 1, 1]
    assert finishes(done) == [600.0, 1200.0, 1800.0]


@pytest.mark.parametrize("scheduler", ["srtf", "srtf+joint"])
def test_a_job_is_left_alone_until_it_repaid_its_start(scheduler: str) -> None:
    trace = jobs_of(job(0, 10_000), job(5, 10))
    done = run(trace, cluster_of(1), scheduler, restart_cost_seconds=10.0)
    assert column(done, "start_seconds") == [0.0, WORK_PER_INTERRUPTION * 10.0]


def test_a_waiting_job_differs_by_its_reason() -> None:
    trace = jobs_of(job(0, 10_000), job(5, 10))
    done = run(trace, cluster_of(1), "srtf", restart_cost_seconds=10.0)
    waited = done.record.reasons.filter(pl.col("job_id") == "1")
    assert waited["reason"].to_list() == ["protected"]
    assert (waited["from_seconds"][0], waited["to_seconds"][0]) == (5.0, 120.0)


@pytest.mark.parametrize("scheduler", ["srtf+requested", "srtf+tune-plus", "srtf+joint"])
def test_who_lacks_cpus_does_not_wait_for_a_protection(scheduler: str) -> None:
    """Two GPUs and two cores are free; if the first job were stopped, three of each: too few cores for the third."""
    trace = jobs_of(
        job(0, 2_000, cpus=1.0),
        job(0, 1_000, cpus=9.0, preemptible=False),
        job(10, 100, gpus=3, cpus=8.0),
    )
    result = run(trace, cluster_of(4), scheduler, restart_cost_seconds=10.0)
    waited = result.record.reasons.filter(pl.col("job_id") == "2")
    assert "protected" not in waited["reason"].to_list()


@pytest.mark.parametrize(("shorter_by", "preemptions"), [(59.0, 0), (61.0, 1)])
def test_srtf_interrupts_only_for_more_than_the_cost(shorter_by: float, preemptions: int) -> None:
    # At 5000 s job 0 has 1000 s left; job 1 needs less by a little more or less than the interruption costs.
    trace = jobs_of(job(0, 6000), job(5000, 1000 - shorter_by))
    done = run(trace, cluster_of(1), "srtf", restart_cost_seconds=60.0)
    assert column(done, "preemptions") == [preemptions, 0]


@settings(max_examples=40, deadline=None)
@given(
    order=st.sampled_from(ORDERS),
    cost=st.sampled_from([1.0, 5.0, 30.0]),
    round_seconds=st.sampled_from([None, 10.0, 60.0]),
    knowledge=st.sampled_from(["oracle", "none"]),
    rows=st.lists(
        st.tuples(st.integers(0, 400), st.integers(1, 900), st.sampled_from([1, 1, 2, 4])),
        min_size=2,
        max_size=12,
    ),
)
def test_restarts_take_little_of_the_time(
    order: str, cost: float, round_seconds: float | None, knowledge: str, rows: list[tuple[int, int, int]]
) -> None:
    trace = jobs_of(*(job(submit, seconds, gpus) for submit, seconds, gpus in rows))
    done = run(
        trace,
        cluster_of(2, 2),
        order,
        round_seconds=round_seconds,
        restart_cost_seconds=cost,
        knowledge=knowledge,
    )
    share = 1 / (1 + WORK_PER_INTERRUPTION)
    for waste, ran in zip(column(done, "restart_seconds"), column(done, "run_seconds"), strict=True):
        # The last start need not have run for long when the job ends.
        assert waste <= share * ran + cost + 1e-6
    assert None not in finishes(done)


def test_a_change_repays_its_cost_within_the_horizon() -> None:
    assert repays(0.1, 359.0)
    assert not repays(0.1, 361.0)


@pytest.mark.parametrize(
    ("cost", "sentence"),
    [
        (None, "60 s, unless the trace states a cost for a job"),
        (0.0, "none, preemptions are free"),
    ],
)
def test_every_result_states_the_cost(cost: float | None, sentence: str) -> None:
    done = simulate(jobs_of(job(0, 5)), cluster_of(1), build("fifo"), Options(restart_cost_seconds=cost))
    stated = assumptions(["fifo"], [done.record.run], done.record.jobs)
    assert ("Cost of an interruption", sentence) in stated
