"""What a plan is worth beside the most that was possible: for every scheduler that sizes jobs, at every interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.report import summarise
from muster.schedulers.workers_and_servers.certificate import bound_of
from muster.schedulers.workers_and_servers.smd import Smd
from muster.simulation import Failures
from tests.building import jobs_of, run
from tests.schedulers.smd_cases import FIELD, machines, random_question, sized_job, trace_of_seed
from tests.schedulers.test_smd_choice import best, pairs_of, profit

HOURLY = {"interval_seconds": "3600"}


def assert_bounded(decisions: pl.DataFrame) -> None:
    assert decisions["bound"].is_not_null().all()
    assert (decisions["value"] >= 0).all()
    assert (decisions["value"] <= decisions["bound"] * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("name", FIELD)
@pytest.mark.parametrize("accounting", ["usage", "reservation"])
def test_no_plan_is_worth_more_than_its_bound(name: str, accounting: str) -> None:
    """Places for fewer tasks than chosen, restarts and failing nodes included."""
    result = run(
        trace_of_seed(6, jobs=14, per_hour=6.0),
        machines(3, gpus=8, cpus=64),
        name,
        HOURLY | {"accounting": accounting},
        restart_cost_seconds=30,
        failures=Failures(40 * 3600.0, 3600.0),
        certify=True,
    )
    assert_bounded(result.record.decisions)
    below = summarise(result.record)["below_best"]["mean"]
    assert 0 <= below < 1


def test_smd_brings_its_own_without_being_asked() -> None:
    for name in ("smd", "smd-reservation"):
        trace = trace_of_seed(6, jobs=14, per_hour=6.0)
        published = HOURLY | {"objective": "published"}
        result = run(trace, machines(3, gpus=8, cpus=64), name, published, restart_cost_seconds=30)
        assert_bounded(result.record.decisions.filter(pl.col("bound").is_not_null()))
        assert result.record.decisions["bound"].is_not_null().any()


def test_a_certificate_changes_no_plan() -> None:
    trace = trace_of_seed(8, jobs=10)
    for name in ("smd", "optimus", "oasis"):
        plain, certified = (
            run(trace, machines(2), name, HOURLY, certify=certify) for certify in (False, True)
        )
        assert plain.record.jobs.equals(certified.record.jobs)


def test_alone_at_its_best_size_a_job_reaches_the_bound() -> None:
    (first, *_) = run(jobs_of(sized_job()), machines(4), "smd", certify=True).record.decisions.iter_rows(
        named=True
    )
    assert first["value"] == pytest.approx(first["bound"], rel=1e-9)
    (other, *_) = run(jobs_of(sized_job()), machines(4), "drf-1to1", certify=True).record.decisions.iter_rows(
        named=True
    )
    assert other["bound"] == pytest.approx(first["bound"], rel=1e-9)
    assert other["value"] < other["bound"]


@given(seed=st.integers(0, 10_000), jobs=st.integers(1, 3), rings=st.sampled_from([0.0, 0.5]))
@settings(max_examples=40, deadline=None)
def test_the_bound_exceeds_every_choice_and_the_value_is_exact(seed: int, jobs: int, rings: float) -> None:
    question = random_question(seed, jobs, most=2, rings=rings)
    assert best(question) <= bound_of(question) * (1 + 1e-9)
    rng = np.random.default_rng(seed)
    sizes = [pairs_of(question, job)[rng.integers(len(pairs_of(question, job)))] for job in range(jobs)]
    workers, servers = np.array(sizes).T
    assert question.value(workers, servers) == pytest.approx(profit(question, sizes), rel=1e-9)


@given(seed=st.integers(0, 10_000), at=st.integers(0, 100))
@settings(max_examples=60, deadline=None)
def test_what_is_held_stays_a_choice_and_is_spared_the_restart(seed: int, at: int) -> None:
    """Whatever size a job holds, on no frontier perhaps."""
    question = random_question(seed, 1, share=2.0)
    pairs = pairs_of(question, 0)[1:]
    workers, servers = (np.array([count]) for count in pairs[at % len(pairs)])
    held = replace(question, workers=workers, servers=servers, interruption_cost=np.full(1, 1e9))
    assert held.value(workers, servers) <= bound_of(held) * (1 + 1e-9)
    answer = Smd().answer(held, None)
    assert (answer.workers, answer.servers) == (workers, servers)
