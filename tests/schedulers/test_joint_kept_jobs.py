"""Elastic jobs under orders that stop no job: they change size, and go on."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster import Cluster
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.registry import build
from tests.building import cluster_of, column, job, jobs_of, run
from tests.schedulers.test_dally_network import CHATTY, small_cluster
from tests.schedulers.test_joint_sizes import ELASTIC, MODELS, finished, sizes_of
from tests.schedulers.wrapped import Wrapped

ORDERS = ("fifo", "sjf", "fifo-strict")


class NeverStops(Wrapped):
    """A scheduler that fails if a decision takes all GPUs of a running job."""

    def decide(self, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
        """Decide, and look at what running jobs hold afterwards."""
        decision, state = super().decide(snapshot, state)
        running = snapshot.jobs.index[snapshot.jobs.running]
        with snapshot.transaction() as transaction:
            transaction.try_out(decision.changes)
            assert (snapshot.ledger.books.heads[running] >= 0).all()
        return decision, state


def test_a_job_grows_when_another_one_ends() -> None:
    """Eight GPUs: four each, and eight from 100 s on; nothing is lost by a change, and two GPUs do a second in one."""
    trace = jobs_of(job(0, 100, gpus=4), job(0, 400, **ELASTIC))
    result = run(trace, cluster_of(8), "fifo+joint")
    assert sizes_of(result, "1") == [4, 8]
    assert finished(result) == [100.0, pytest.approx(150.0)]
    assert column(result, "preemptions") == [0, 0]


def test_a_job_shrinks_for_one_that_comes() -> None:
    """It has all eight GPUs, of which the last hardly help; the one that comes needs four, and starts at once."""
    trace = jobs_of(job(0, 40_000, model="fixed", **ELASTIC), job(100, 200, gpus=4))
    result = run(trace, cluster_of(8), "fifo+joint", models=MODELS)
    assert sizes_of(result, "0") == [8, 4, 8]
    assert column(result, "start_seconds") == [0, 100]


def test_a_job_that_may_not_be_stopped_keeps_its_size() -> None:
    trace = jobs_of(job(0, 40_000, model="fixed", preemptible=False, **ELASTIC), job(100, 200, gpus=4))
    result = run(trace, cluster_of(8), "fifo+joint", models=MODELS)
    assert sizes_of(result, "0") == [8]


@st.composite
def rows_of(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rigid jobs, elastic ones, and elastic ones that communicate."""
    rows = []
    for _ in range(draw(st.integers(2, 14))):
        gpus, model = draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from(["resnet50", "gnmt", "chatty"]))
        more: dict[str, Any] = {"model": model, "tenant": draw(st.sampled_from("ab"))}
        if draw(st.integers(0, 2)):
            more |= {"min_gpus": draw(st.integers(1, gpus)), "max_gpus": draw(st.sampled_from([4, 8, 12]))}
        seconds = draw(st.integers(30, 3_000))
        rows.append(job(float(draw(st.integers(0, 1_500))), float(seconds), gpus, **more))
    return rows


@settings(max_examples=40, deadline=None)
@given(
    rows_of(),
    st.sampled_from(ORDERS),
    st.sampled_from([cluster_of(4, 8), cluster_of(4, 4, cpus_per_gpu=1.0), small_cluster(4, 4)]),
    st.sampled_from([0.0, 30.0]),
    st.sampled_from([{}, {"promote_after_seconds": "300"}, {"limits": "a:4"}, {"guaranteed": "a:4"}]),
)
def test_no_running_job_is_stopped(
    rows: list[dict[str, Any]], order: str, cluster: Cluster, cost: float, chosen: dict[str, str]
) -> None:
    """Whatever the sizes, no decision leaves a running job without GPUs, and all jobs end."""
    name = f"quota+{order}+joint" if {"limits", "guaranteed"} & set(chosen) else f"{order}+joint"
    result = run(
        jobs_of(*rows),
        cluster,
        NeverStops(build(name, chosen)),
        layers={"chatty": CHATTY},
        restart_cost_seconds=cost,
    )
    assert result.unfinished == 0
    assert pl.Series(column(result, "preemptions")).sum() == 0
