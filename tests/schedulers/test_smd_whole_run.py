"""The bound on whole runs against the best of all schedules of tiny cases, found by enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.papers.smd.whole_run import whole_run_bound
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from tests.schedulers.smd_cases import random_question


def alone(question: SizingProblem) -> float:
    """Utility if every job had the cluster for itself."""
    seconds = question.remaining * question.best_seconds
    return float(question.worth(np.arange(len(question)), seconds).sum())


def best_schedule(question: SizingProblem) -> float:
    """The most utility of all orders and sizes, each job started as early as the ones before it allow."""
    pairs = question.choices
    usage = question.usage(pairs.job, pairs.workers, pairs.servers)
    ways = [np.flatnonzero(pairs.job == job) for job in range(len(question))]
    lasting = question.remaining[pairs.job] * pairs.seconds
    return max(
        utility_in_order(question, order, np.array(ways_taken), usage, lasting)
        for ways_taken in product(*ways)
        for order in permutations(range(len(question)))
    )


def utility_in_order(
    question: SizingProblem, order: tuple[int, ...], taken: np.ndarray, usage: np.ndarray, lasting: np.ndarray
) -> float:
    """Utility of all jobs that fit the cluster at all."""
    placed: list[tuple[float, float, np.ndarray]] = []
    total = 0.0
    for job in order:
        held = usage[taken[job]]
        if (held > question.capacity + 1e-9).any():
            continue
        # Room may only appear where a job ends, and must last until the job's own end.
        for start in sorted({float(question.arrival[job]), *(end for _, end, _ in placed)}):
            end = start + float(lasting[taken[job]])
            moments = [start, *(begin for begin, _, _ in placed if start < begin < end)]
            if start >= question.arrival[job] and all(
                (sum((use for a, b, use in placed if a <= at < b), held) <= question.capacity + 1e-9).all()
                for at in moments
            ):
                placed.append((start, end, held))
                total += float(question.worth(np.array([job]), np.array([end - question.arrival[job]]))[0])
                break
    return total


@pytest.mark.parametrize("reserved", [False, True])
@given(seed=st.integers(0, 10_000), jobs=st.integers(1, 3), later=st.booleans())
@settings(max_examples=25, deadline=None)
def test_no_schedule_is_worth_more_than_the_bound(reserved: bool, seed: int, jobs: int, later: bool) -> None:
    question = random_question(seed, jobs, most=1, reserved=reserved, share=0.7)
    arrival = np.random.default_rng(seed).uniform(0, 3600, jobs) if later else np.zeros(jobs)
    question = replace(question, arrival=arrival)
    bound = whole_run_bound(question)
    assert best_schedule(question) <= bound * (1 + 1e-9)
    assert bound <= alone(question) * (1 + 1e-9)


def test_with_room_for_all_the_bound_is_the_utility_alone() -> None:
    question = random_question(3, 4, most=2)
    question = replace(question, capacity=100 * question.capacity)
    assert whole_run_bound(question) == pytest.approx(alone(question), rel=1e-9)
    assert best_schedule(question) == pytest.approx(alone(question), rel=1e-9)


HOURS = 4.0
"""Length of each of the equal jobs: a slot of 900 s is a small part of it."""


def filling_jobs(
    targets: list[float], urgency_per_hour: float, hours: float = HOURS, one: SizingProblem | None = None
) -> SizingProblem:
    """Equal jobs of one size that fills the cluster for so many hours, or equal to `one`; targets in hours."""
    count = len(targets)
    one = random_question(5, 1, most=1, share=1.0) if one is None else one
    one = replace(one, remaining=hours * 3600.0 / one.best_seconds)
    names = (
        "index",
        "arrival",
        "remaining",
        "workers",
        "servers",
        "pinned",
        "interruption_cost",
        "least_workers",
    )
    same: dict[str, Any] = {
        name: np.repeat(getattr(one, name), count) for name in (*names, "is_ring", "priority")
    }
    demands = one.demands
    return replace(
        one,
        **same,
        urgency=np.full(count, urgency_per_hour / 3600.0),
        target=np.array(targets) * 3600.0,
        steps=one.steps[np.zeros(count, np.int64)],
        demands=replace(
            demands,
            worker=np.repeat(demands.worker, count, axis=0),
            server=np.repeat(demands.server, count, axis=0),
            limit=np.repeat(demands.limit, count, axis=0),
        ),
    )


def test_the_bound_is_near_the_best_where_jobs_take_turns() -> None:
    four = filling_jobs([10.0] * 4, urgency_per_hour=0.25)
    best, bound = best_schedule(four), whole_run_bound(four)
    # A bound by prices may serve parts of jobs.
    assert best <= bound <= 1.15 * best
    assert bound < 0.9 * alone(four)


@pytest.mark.parametrize("jobs", [1, 2, 4])
def test_the_bound_allows_jobs_that_just_meet_their_targets(jobs: int) -> None:
    """One after the other they all end six minutes before their targets: with 5 % less of anything the last is late."""
    question = filling_jobs([HOURS * (at + 1) + 0.1 for at in range(jobs)], urgency_per_hour=100.0)
    best, bound = best_schedule(question), whole_run_bound(question)
    assert best == pytest.approx(question.priority.sum(), rel=1e-3)
    assert best <= bound <= question.priority.sum() * (1 + 1e-9)


@pytest.mark.parametrize("arrival_hours", [0.0, 8.0])
@pytest.mark.parametrize("in_time", [1, 2, 3])
def test_the_bound_counts_no_job_that_must_be_late(in_time: int, arrival_hours: float) -> None:
    """Four jobs with one target that so many of them can meet: the others are worth nothing."""
    question = filling_jobs([HOURS * in_time + 0.1] * 4, urgency_per_hour=100.0)
    question = replace(question, arrival=np.full(4, arrival_hours * 3600.0))
    best, bound = best_schedule(question), whole_run_bound(question, steps=400)
    assert best == pytest.approx(in_time * question.priority[0], rel=1e-3)
    # A completion counts from the start of its slot of 900 s, and the prices are not yet the best ones.
    assert best <= bound <= best + 0.3 * question.priority[0]


def test_the_bound_counts_jobs_that_end_after_weeks() -> None:
    """Five jobs of 100 hours, one after the other, to which time does not matter."""
    question = filling_jobs([HOURS] * 5, urgency_per_hour=0.0, hours=100.0)
    assert best_schedule(question) == pytest.approx(alone(question), rel=1e-9)
    assert whole_run_bound(question) == pytest.approx(alone(question), rel=1e-9)


def test_the_bound_counts_jobs_that_arrive_after_weeks() -> None:
    question = filling_jobs([HOURS] * 3, urgency_per_hour=0.1)
    question = replace(question, arrival=np.array([0.0, 200.0, 1000.0]) * 3600.0)
    assert best_schedule(question) == pytest.approx(alone(question), rel=1e-9)
    assert whole_run_bound(question) == pytest.approx(alone(question), rel=1e-9)


@pytest.mark.parametrize(("jobs", "in_time"), [(2, 2), (4, 2)])
def test_the_bound_counts_slow_sizes_that_hold_less(jobs: int, in_time: int) -> None:
    """At its fastest size a job fills the cluster; at the other it holds half of it, 1.44 times as long."""
    one = random_question(7, 1, most=3, share=1.0)
    slow = float(one.choices.seconds.max() / one.choices.seconds.min())
    assert one.shares(one.usage(one.choices.job, one.choices.workers, one.choices.servers)).tolist() == [
        0.5,
        1.0,
    ]
    question = filling_jobs([HOURS * slow + 0.1] * jobs, urgency_per_hour=100.0, one=one)
    best, bound = best_schedule(question), whole_run_bound(question, steps=400)
    assert best == pytest.approx(in_time * question.priority[0], rel=1e-3)
    assert best <= bound <= best + 0.3 * question.priority[0]
