"""`--certify`: what a plan reaches beside what was possible, with nothing of the run changed by it."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.ledger import NodeAllocation
from muster.report import summarise
from muster.schedulers.certify import bound_of_decision, bound_of_plan, speed_of_plan
from muster.speed.input_stage import relative_speed
from muster.workload.generators.synergy import generate
from tests.building import cluster_of, hold, job, jobs_of, run
from tests.schedulers.synergy_cases import (
    Round,
    random_round,
    round_of,
    servers,
    total_speed,
    tried,
)
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
    for allocator in GUARANTEED[:2]:
        with tried(allocator, case):
            reached = speed_of_plan(case.snapshot)
            assert reached == pytest.approx(total_speed(case), rel=1e-6)
            assert reached <= bound_of_plan(case.snapshot) * (1 + 1e-6)


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
    # A scheduler that is not asked at a completion records it later, in another order.
    rows = ["from_seconds", "job_id", "node"]
    assert certified.allocations.sort(rows).equals(plain.allocations.sort(rows))
    assert certified.reasons.equals(plain.reasons)
    known = certified.decisions.drop_nulls("bound")
    assert known.height > 0.9 * certified.decisions.height
    assert (known["value"] <= known["bound"] * (1 + 1e-6)).all()


@st.composite
def any_holdings(draw: st.DrawFn) -> Round:
    """Jobs on any free GPUs of any machines, with any of the CPUs and memory there, or with none."""
    case = draw(random_round(most_gpus=8))
    books = case.snapshot.ledger.books
    for at in draw(st.permutations(range(len(case.snapshot.jobs)))):
        left, shares = int(case.snapshot.jobs.gpus[at]), []
        most_each = draw(st.sampled_from([1, 2, 64]))
        for node in draw(st.permutations(range(len(books.nodes)))):
            free = case.snapshot.ledger.free_ids(node)
            count = min(left, most_each, len(free))
            part = draw(st.sampled_from([0.0, 0.3, 1.0]))
            amounts = books.nodes[node]["free"][1:] * part / 1e6
            if count:
                shares.append(NodeAllocation(node, free[:count], *amounts.tolist()))
                left -= count
        if not left and draw(st.booleans()):
            hold(case.snapshot.ledger, at, sorted(shares, key=lambda share: share.node))
    return case


def test_a_gang_spread_over_machines_is_below_the_bound() -> None:
    """Eight alexnet GPUs, one on each of eight servers: each has 12 CPUs, where one server has 3 for each."""
    case = round_of(servers(8), [("alexnet", 8)])
    spread = [NodeAllocation(node, (0,), cpus=12.0, memory_gb=125.0) for node in range(8)]
    hold(case.snapshot.ledger, 0, spread)
    assert speed_of_plan(case.snapshot) == pytest.approx(8 * 2.94)
    assert bound_of_decision(case.snapshot) == pytest.approx(8 * 2.94)
    assert bound_of_plan(case.snapshot) == pytest.approx(8)


@settings(max_examples=150, deadline=None)
@given(case=any_holdings())
def test_no_plan_exceeds_the_bound(case: Round) -> None:
    """Spread gangs, shares below the fair one, no memory at all, jobs left waiting: whatever the world allows."""
    assert speed_of_plan(case.snapshot) <= bound_of_decision(case.snapshot) * (1 + 1e-6)


@settings(max_examples=20, deadline=None)
@given(
    allocation=st.sampled_from(
        [
            "greedy",
            "tune-published",
            "tune",
            "tune-plus",
            "opt",
            "joint",
            "requested",
            "proportional+scatter",
        ]
    ),
    order=st.sampled_from(["fifo", "srtf", "las"]),
    seed=st.integers(0, 100),
)
def test_no_scheduler_is_shown_above_the_bound(allocation: str, order: str, seed: int) -> None:
    trace = generate(12, load_per_hour=6.0, split=(50, 25, 25), multi_gpu=True, seed=seed)
    decisions = run(trace, cluster_of(4, 2, 8, 2), f"{order}+{allocation}", certify=True).record.decisions
    known = decisions.drop_nulls("bound").filter(pl.col("bound").is_not_nan())
    assert known.height
    assert (known["value"] <= known["bound"] * (1 + 1e-6)).all()


def test_an_elastic_job_is_not_measured() -> None:
    """Each asks for eight GPUs and may have one; the rigid job beside them is measured."""
    elastic = [job(0, 4_000, gpus=8, min_gpus=1, max_gpus=8, model="resnet18") for _ in range(3)]
    trace = jobs_of(job(0, 4_000, model="resnet18"), *elastic)
    result = run(trace, cluster_of(8), "las+joint", certify=True)
    decisions = result.record.decisions
    assert len(decisions) > 1
    assert (decisions["value"] > 0.0).any()
    assert (decisions["value"] <= decisions["bound"] + 1e-9).all()


def test_turns_on_one_gpu_have_no_value() -> None:
    """Both jobs hold the GPU and each has half of it: their sum would be twice what there is."""
    pair = jobs_of(*(job(0, 3600) for _ in range(2)))
    decisions = run(pair, cluster_of(1), "gandiva", certify=True).record.decisions
    both = decisions.filter(pl.col("running") == 2)
    assert both.height
    assert both["value"].drop_nulls().drop_nans().is_empty()


def test_the_bound_is_close_to_brute_force_on_one_server() -> None:
    """One server and jobs of one GPU, CPUs given out in whole measured points: no less than the best, within 5 %."""
    names = ["alexnet", "resnet50", "gnmt", "m5"]
    case = round_of(servers(1), [(name, 1) for name in names])
    models = case.snapshot.resource_profiles.models
    grid = np.array([(c, m) for c in (1, 3, 6, 9, 12) for m in (62.5, 125.0, 187.5, 250.0)])
    best = 0.0
    for picked in product(range(len(grid)), repeat=len(names)):
        amounts = grid[list(picked)]
        if (amounts.sum(axis=0) <= (24, 500)).all():
            speeds_ = (
                relative_speed(models, int(model), cpus, memory_gb, np.inf)
                for (cpus, memory_gb), model in zip(amounts, case.snapshot.jobs.model, strict=True)
            )
            best = max(best, sum(speeds_))
    bound = bound_of_decision(case.snapshot)
    assert best <= bound * (1 + 1e-6)
    assert bound <= 1.05 * best
