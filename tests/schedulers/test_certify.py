"""`--certify`: what a plan reaches beside what was possible, with nothing of the run changed by it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from muster.report import summarise
from muster.schedulers.certify import bound_of_plan, speed_of_plan
from muster.workload.generators.synergy import generate
from tests.building import cluster_of, job, jobs_of, run
from tests.schedulers.synergy_cases import Round, allot, random_round, servers, total_speed
from tests.schedulers.test_synergy_guarantee import GUARANTEED


def test_two_hungry_jobs_on_their_shares() -> None:
    """Two alexnets of 10 minutes on 24 CPUs could both run at 2.94; on their shares they run at 1."""
    pair = jobs_of(job(0, 600, model="alexnet"), job(0, 1200, model="alexnet"))
    result = run(pair, servers(1), "fifo+proportional", certify=True)
    decisions = result.record.decisions.select("time_seconds", "value", "bound")
    # That the first leaves is no question for the scheduler, but is measured.
    expected = [(0.0, 2.0, 2 * 2.94), (600.0, 1.0, 2.94), (1200.0, 0.0, 0.0)]
    assert decisions.height >= 2
    for row, by_hand in zip(decisions.rows(), expected, strict=False):
        assert row == pytest.approx(by_hand)
    below = summarise(result.record)["below_best"]
    assert (below["mean"], below["p99"]) == pytest.approx((1 - 1 / 2.94, 1 - 1 / 2.94))


def test_a_job_that_could_run_and_does_not_counts() -> None:
    """Greedy passes the second m5, whose demand fits nowhere; together they could have 24 CPUs and 500 GB."""
    pair = jobs_of(*(job(0, 600, gpus=2, model="alexnet") for _ in range(2)))
    first = run(pair, servers(1), "fifo+greedy", certify=True).record.decisions.row(0, named=True)
    assert first["running"] == 1
    assert first["bound"] == pytest.approx(4 * 1.75)
    assert first["value"] == pytest.approx(2 * 2.94)


@settings(max_examples=30, deadline=None)
@given(case=random_round())
def test_what_a_plan_reaches_is_the_speed_of_its_jobs(case: Round) -> None:
    for allotment in GUARANTEED[:2]:
        draft = case.view.draft()
        allot(allotment, case)
        reached = speed_of_plan(case.view)
        assert reached == pytest.approx(total_speed(case), rel=1e-6)
        assert reached <= bound_of_plan(case.view) * (1 + 1e-6)
        draft.undo()


@pytest.mark.parametrize(
    "scheduler", ["fifo", "srtf+proportional", "las+tune", "fifo+tune-plus", "dally", "tiresias"]
)
@pytest.mark.parametrize("round_seconds", [None, 300.0])
def test_the_run_is_the_same(scheduler: str, round_seconds: float | None) -> None:
    trace = generate(40, load_per_hour=4.0, split=(33, 33, 33), multi_gpu=True, seed=3)
    cluster = cluster_of(8, 8, 8, racks=2)
    plain, certified = (
        run(trace, cluster, scheduler, round_seconds=round_seconds, certify=certify).record
        for certify in (False, True)
    )
    assert certified.jobs.equals(plain.jobs)
    # Whoever is not asked at a completion writes it down later, in another order.
    rows = ["from_seconds", "job_id", "node"]
    assert certified.allocations.sort(rows).equals(plain.allocations.sort(rows))
    assert certified.reasons.equals(plain.reasons)
    known = certified.decisions.drop_nulls("bound")
    assert known.height > 0.9 * certified.decisions.height
    assert (known["value"] <= known["bound"] * (1 + 1e-6)).all()
