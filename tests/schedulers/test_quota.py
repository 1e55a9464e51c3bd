"""Tenants: limits hold at all times, guarantees come back, borrowing follows the weights."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.problems import InputError
from muster.schedulers.admission.quota import Quota
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.reasons import OVER_LIMIT
from muster.schedulers.registry import build
from muster.simulation import Run
from tests.building import cluster_of, column, finishes, job, jobs_of, run
from tests.schedulers.smd_cases import machines, sized_job
from tests.schedulers.test_example_policies import Grows
from tests.schedulers.test_joint_servers import UNRATED


def most_held(result: Run, tenant: str) -> float:
    """The most GPUs that a tenant held at once."""
    owners = result.record.jobs.select("job_id", "tenant")
    held = result.record.allocations.join(owners, on="job_id").filter(pl.col("tenant") == tenant)
    steps = pl.concat(
        [
            held.select(at="from_seconds", gpus="gpus", order=pl.lit(1)),
            held.select(at="to_seconds", gpus=-pl.col("gpus"), order=pl.lit(0)),
        ]
    ).sort("at", "order")
    return max(steps["gpus"].cum_sum().to_list(), default=0.0)


def test_a_limit_holds_and_smaller_jobs_pass() -> None:
    trace = jobs_of(*(job(n, 100, gpus=gpus, tenant="a") for n, gpus in enumerate((2, 2, 1))))
    result = run(trace, cluster_of(8), "quota+fifo", {"limits": "a:3"})
    assert column(result, "start_seconds") == [0, 100, 2]
    reasons = result.record.reasons
    assert reasons["reason"].to_list() == ["over_limit"]
    assert reasons["parameters"].to_list() == ['{"limit": 3.0, "needs": 2.0}']


ADMITTING = ["fifo", "srtf", "las+tune", "priority+tune-plus", "gittins+joint", "las+joint", "fifo+joint"]
ADMITTING += ["fifo+no-wait", "fifo+delay-timers", "dally-tune"]


@pytest.mark.parametrize("scheduler", ADMITTING)
def test_a_gang_without_a_place_leaves_its_tenants_limit(scheduler: str) -> None:
    """Its smaller jobs start on the two GPUs that each node has free, and go on; under a strict order they wait."""
    others = [job(0, 10_000, gpus=6, tenant="b", nodes=1, preemptible=False) for _ in range(2)]
    gang = job(10, 100, gpus=8, tenant="a", nodes=1)
    trace = jobs_of(*others, gang, job(20, 100, tenant="a"), job(30, 300, gpus=2, tenant="a"))
    result = run(trace, cluster_of(8, 8), f"{scheduler}+quota", {"limits": "a:8"})
    assert finishes(result) == pytest.approx([10_000, 10_000, 10_100, 120, 330])
    if scheduler == "fifo":
        strict = run(trace, cluster_of(8, 8), f"quota+{scheduler}", {"limits": "a:8", "strict": "true"})
        assert min(column(strict, "start_seconds")[3:]) >= 10_000


PROTECTED = [job(0, 1_000, gpus=8), job(10, 100, gpus=4)]
KEPT = [job(0, 3_000, gpus=4, model="resnet50"), job(100, 20_000, gpus=2, model="alexnet", preemptible=False)]
KEPT[1] |= {"min_gpus": 1, "max_gpus": 8}


@pytest.mark.parametrize("given", [{}, {"limits": "a:99"}, {"guaranteed": "b:2"}], ids=str)
@pytest.mark.parametrize(
    ("scheduler", "rows"), [("srtf", PROTECTED), ("srtf+tune", PROTECTED), ("srtf+joint", KEPT)]
)
def test_a_quota_that_limits_no_tenant_changes_nothing(
    scheduler: str, rows: list[dict[str, Any]], given: dict[str, str]
) -> None:
    """What may not be interrupted keeps its rank: `why` says that it is protected, and it gets no larger size."""
    trace = jobs_of(*(row | {"tenant": "a"} for row in rows))
    with_quota, without = (
        run(trace, cluster_of(8), name, setting, restart_cost_seconds=60.0).record
        for name, setting in ((f"quota+{scheduler}", given), (scheduler, None))
    )
    assert with_quota.allocations.equals(without.allocations)
    assert with_quota.reasons.equals(without.reasons)


def test_guaranteed_gpus_are_taken_back_from_a_borrower() -> None:
    trace = jobs_of(job(0, 100, gpus=4, tenant="borrower"), job(10, 50, gpus=2, tenant="owner"))
    kept = run(trace, cluster_of(4), "quota+fifo", {"guaranteed": "owner:2"})
    assert finishes(kept) == pytest.approx([100, 150])
    reclaimed = run(trace, cluster_of(4), "quota+fifo", {"guaranteed": "owner:2", "preemptive": "true"})
    assert finishes(reclaimed) == pytest.approx([150, 60])


def test_borrowing_follows_the_weights() -> None:
    jobs = [job(0, 100, tenant=tenant) for tenant in ("a", "b") for _ in range(6)]
    result = run(jobs_of(*jobs), cluster_of(6), "quota+fifo", {"weights": "a:2,b:1"})
    started_at_once = [start == 0 for start in column(result, "start_seconds")]
    assert sum(started_at_once[:6]) == 4
    assert sum(started_at_once[6:]) == 2


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(1, 4), st.sampled_from("abc")),
        min_size=1,
        max_size=15,
    ),
    st.sampled_from(["fifo", "srtf", "las", "fifo-strict"]),
    st.booleans(),
)
def test_no_tenant_ever_holds_more_than_its_limit(
    rows: list[tuple[int, int, int, str]], order: str, preemptive: bool
) -> None:
    trace = jobs_of(*(job(at, length, gpus=gpus, tenant=tenant) for at, length, gpus, tenant in rows))
    chosen = {"limits": "a:4,b:5", "guaranteed": "a:2,b:2", "preemptive": str(preemptive).lower()}
    result = run(trace, cluster_of(4, 3), f"quota+{order}", chosen)
    assert most_held(result, "a") <= 4
    assert most_held(result, "b") <= 5
    assert result.unfinished == 0


ELASTIC: dict[str, Any] = {"gpus": 8, "min_gpus": 1, "max_gpus": 16, "tenant": "a"}


def test_elastic_jobs_share_what_their_tenant_may_hold() -> None:
    """Each asks for as many GPUs as both may have; the cluster has four times that."""
    trace = jobs_of(*[job(0, 3_600, model="resnet50", **ELASTIC)] * 2)
    result = run(trace, cluster_of(8, 8, 8, 8), "quota+las+joint", {"limits": "a:8"})
    first = result.record.allocations.filter(pl.col("from_seconds") == 0)
    by_job = first.group_by("job_id").agg(pl.col("gpus").sum())
    assert len(by_job) == 2
    assert by_job["gpus"].sum() == 8


def test_an_elastic_job_makes_room_within_its_tenants_limit() -> None:
    """It is never stopped: a job of four GPUs comes, and it goes on with the other four."""
    rows = job(0, 36_000, model="resnet50", **ELASTIC), job(10, 600, gpus=4, model="resnet50", tenant="a")
    result = run(jobs_of(*rows), cluster_of(8, 8), "quota+las+joint", {"limits": "a:8"})
    assert column(result, "start_seconds") == [0, 10]
    assert column(result, "preemptions") == [0, 0]
    assert most_held(result, "a") == 8


def test_elastic_borrowers_give_guaranteed_gpus_back() -> None:
    """Each job of the owner starts when it comes, the last one as well, and they have what is guaranteed."""
    borrowers = [
        job(float(at), 40_000, model="resnet50", tenant="borrower", gpus=4, min_gpus=1, max_gpus=16)
        for at in range(12)
    ]
    owned: dict[str, Any] = {"model": "gnmt", "tenant": "owner", "gpus": 4, "min_gpus": 1, "max_gpus": 16}
    owners = [job(10_000.0 + at, 20_000, **owned) for at in range(4)]
    trace = jobs_of(*borrowers, *owners)
    result = run(trace, cluster_of(8, 8), "quota+gittins+joint", {"guaranteed": "owner:6"})
    assert column(result, "start_seconds")[12:] == [10_000, 10_001, 10_002, 10_003]
    held = result.record.allocations.join(result.record.jobs.select("job_id", "tenant"), on="job_id")
    together = held.filter((pl.col("from_seconds") <= 10_003) & (pl.col("to_seconds") > 10_003))
    assert together.filter(pl.col("tenant") == "owner")["gpus"].sum() >= 6


@pytest.mark.parametrize(("jobs_of_b", "held"), [(4, {"a": 16, "b": 8}), (1, {"a": 20, "b": 4})])
def test_elastic_jobs_borrow_by_the_weights(jobs_of_b: int, held: dict[str, float]) -> None:
    """Each could use four GPUs; what a tenant cannot use goes to the other one."""
    rows = [
        job(0, 90_000, model="resnet50", tenant=tenant, min_gpus=1, max_gpus=4)
        for tenant, count in (("a", 6), ("b", jobs_of_b))
        for _ in range(count)
    ]
    result = run(jobs_of(*rows), cluster_of(8, 8, 8), "quota+las+joint", {"weights": "a:2,b:1"})
    first = result.record.allocations.filter(pl.col("from_seconds") == 0)
    by_tenant = first.join(result.record.jobs.select("job_id", "tenant"), on="job_id")
    assert dict(by_tenant.group_by("tenant").agg(pl.col("gpus").sum()).iter_rows()) == held


@pytest.mark.parametrize("wrong", ["limits=a:-1", "guaranteed=a:4,b:-2", "weights=a:0"])
def test_negative_gpus_and_weights_of_nothing_are_refused(wrong: str) -> None:
    name, value = wrong.split("=")
    with pytest.raises(InputError, match=f"--set {name}: found '{value}'; {name}: allowed: numbers"):
        build("quota+fifo", {name: value})


def test_no_tenant_is_guaranteed_more_than_its_limit() -> None:
    limits = {"limits": "a:4,b:2", "guaranteed": "a:4,c:8"}
    build("quota+fifo", limits)
    wrong = "--set limits, guaranteed: found 'a:4,b:2, a:4,b:2.5'; guaranteed: allowed: for b at most its limit, 2"
    with pytest.raises(InputError, match=re.escape(wrong)):
        build("quota+fifo", limits | {"guaranteed": "a:4,b:2.5"})


@st.composite
def jobs_of_many_sizes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rigid and elastic jobs, and some with parameter servers."""
    rows = []
    for _ in range(draw(st.integers(1, 12))):
        gpus = draw(st.sampled_from([1, 1, 2, 3, 4]))
        kind = draw(st.sampled_from(["rigid", "elastic", "elastic", "servers"]))
        at, tenant = float(draw(st.integers(0, 5_000))), draw(st.sampled_from("abc"))
        if kind == "servers":
            stated = draw(st.sampled_from([{}, UNRATED]))
            iterations = float(draw(st.integers(100, 20_000)))
            rows.append(sized_job(submit_seconds=at, iterations=iterations, tenant=tenant, **stated))
            continue
        model = draw(st.sampled_from(["resnet50", "gnmt"]))
        sizes = {"min_gpus": 1, "max_gpus": draw(st.sampled_from([4, 8]))} if kind == "elastic" else {}
        row = {"submit_seconds": at, "gpus": gpus, "model": model, "tenant": tenant, **sizes}
        rows.append(row | {"iterations": float(draw(st.integers(100, 40_000)))})
    return rows


@settings(max_examples=60, deadline=None)
@given(jobs_of_many_sizes(), st.sampled_from(["fifo", "gittins", "las"]), st.sampled_from([0.0, 60.0]))
def test_no_tenant_grows_above_its_limit(rows: list[dict[str, Any]], order: str, restart_cost: float) -> None:
    chosen = {"limits": "a:4,b:5.5"}
    result = run(
        jobs_of(*rows), machines(3), f"quota+{order}+joint", chosen, restart_cost_seconds=restart_cost
    )
    assert most_held(result, "a") <= 4
    assert most_held(result, "b") <= 5
    assert result.unfinished == 0


@dataclass
class GrowsWithinQuota(Grows):
    """Places and grows jobs as far as the tenant's limit lets them."""

    limits: dict[str, float] = field(default_factory=dict)
    running_are_ranked: bool = False

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        ranked = (
            np.arange(len(snapshot.jobs))
            if self.running_are_ranked
            else np.flatnonzero(snapshot.jobs.waiting)
        )
        ranking = Quota(limits=self.limits).select(snapshot, ranked, np.zeros(len(snapshot.jobs), np.bool_))
        kept = replace(snapshot, jobs=snapshot.jobs.at(ranking.ranked))
        decision, state = super().decide(kept, state)
        with snapshot.transaction() as transaction:
            transaction.try_out(decision.changes)
            return self.plan(snapshot, transaction, OVER_LIMIT, stable_until=inf), state


@pytest.mark.parametrize("running_are_ranked", [False, True])
def test_a_limit_counts_the_gpus_that_a_job_grew_to(running_are_ranked: bool) -> None:
    """The first job asks for 2 GPUs and holds 4, so the second one's 2 would make 6 of 5."""
    trace = jobs_of(job(0, 200, gpus=2, max_gpus=4, tenant="a"), job(10, 50, gpus=2, tenant="a"))
    scheduler = GrowsWithinQuota(limits={"a": 5.0}, running_are_ranked=running_are_ranked)
    result = run(trace, cluster_of(8), scheduler)
    assert column(result, "start_seconds") == [0, 100]
    assert most_held(result, "a") == 4
