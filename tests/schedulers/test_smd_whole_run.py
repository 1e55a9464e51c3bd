"""The bound on whole runs against the best of all schedules of tiny cases, found by enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.reproduce.smd.whole_run import whole_run_bound
from muster.schedulers.workers_and_servers.question import Question
from tests.schedulers.smd_cases import random_question


def alone(question: Question) -> float:
    """Utility if every job had the cluster for itself."""
    seconds = question.remaining * question.best_seconds
    return float(question.worth(np.arange(len(question)), seconds).sum())


def best_schedule(question: Question) -> float:
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
    question: Question, order: tuple[int, ...], taken: np.ndarray, usage: np.ndarray, lasting: np.ndarray
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


def test_the_bound_is_near_the_best_where_jobs_take_turns() -> None:
    """Four equal jobs that each fill the cluster: the best schedule is one after the other."""
    one = random_question(5, 1, most=1, share=1.0)
    # 4 hours each: a slot of 900 s is a small part of them.
    one = replace(one, remaining=4 * 3600.0 / one.best_seconds)
    same = {
        name: np.repeat(getattr(one, name), 4)
        for name in ("index", "arrival", "remaining", "workers", "servers", "pinned", "interruption_cost")
    } | {name: np.repeat(getattr(one, name), 4) for name in ("least_workers", "is_ring", "priority")}
    demands = one.demands
    four = replace(
        one,
        **same,
        urgency=np.full(4, 1 / (4 * 3600.0)),
        target=np.full(4, 10 * 3600.0),
        steps=one.steps[np.zeros(4, np.int64)],
        demands=replace(
            demands,
            worker=np.repeat(demands.worker, 4, axis=0),
            server=np.repeat(demands.server, 4, axis=0),
            limit=np.repeat(demands.limit, 4, axis=0),
        ),
    )
    best, bound = best_schedule(four), whole_run_bound(four)
    # A bound by prices may serve parts of jobs.
    assert best <= bound <= 1.15 * best
    assert bound < 0.9 * alone(four)
