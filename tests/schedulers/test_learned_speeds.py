"""Optimus learns speeds from the sizes that its jobs have shown, by the published form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.fitting.speed_fit import fit_synchronous_coefficients
from muster.problems import InputError
from muster.schedulers.registry import build
from muster.schedulers.workers_and_servers.learned_speeds import tried_sizes, with_learned_speeds
from muster.speed.parameter_server.learned import fitted_form
from tests.building import run
from tests.schedulers.smd_cases import machines, random_question, trace_of_seed

SIZES = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=5, max_size=10, unique=True)


def published(coefficients: np.ndarray, workers: np.ndarray, servers: np.ndarray) -> np.ndarray:
    """Optimus' synchronous form."""
    one, constant, load, each_worker, each_server = coefficients
    growing = each_worker * workers + each_server * servers
    seconds: np.ndarray = one / workers + constant + load * workers / servers + growing
    return seconds


@settings(max_examples=40, deadline=None)
@given(SIZES, st.lists(st.floats(0, 2), min_size=5, max_size=5), st.integers(0, 2**32 - 1))
def test_the_fit_is_that_of_an_independent_solver(
    sizes: list[tuple[int, int]], numbers: list[float], seed: int
) -> None:
    """Scipy's non-negative least squares of the relative errors, from noisy steps."""
    workers, servers = np.array(sizes, float).T
    noise = np.random.default_rng(seed).normal(1, 0.05, len(sizes))
    seconds = (published(np.array(numbers), workers, servers) + 0.1) * noise
    ours = fitted_form(workers, servers, seconds)
    theirs = fit_synchronous_coefficients(1 / workers, workers, servers, seconds)
    errors = [np.sum((published(found, workers, servers) / seconds - 1) ** 2) for found in (ours, theirs)]
    assert (ours >= 0).all()
    assert errors[0] == pytest.approx(errors[1], rel=1e-6, abs=1e-9)


def test_a_ring_is_fitted_without_servers() -> None:
    workers = np.array([1.0, 2.0, 4.0, 8.0])
    found = fitted_form(workers, np.zeros(4), 3.0 / workers + 0.5 + 0.02 * workers)
    assert found == pytest.approx([3.0, 0.5, 0.0, 0.02, 0.0])


def test_a_job_tries_the_ends_and_the_middle() -> None:
    assert tried_sizes(9, 5) == ((1, 1), (1, 5), (5, 3), (9, 1), (9, 5))
    assert tried_sizes(8, 0) == ((1, 0), (4, 0), (8, 0))
    assert tried_sizes(1, 1) == ((1, 1),)


def test_what_jobs_hold_is_learned_and_kept() -> None:
    """The tried sizes at first; then every size held, once, with a fit that is near at all of them."""
    question = random_question(3, 6, most=9, rings=0.3)
    tried, first = with_learned_speeds(question, {})
    held = replace(question, workers=np.full(6, 4), servers=np.where(question.is_ring, 0, 3))
    believed, learned = with_learned_speeds(held, first)
    again, same = with_learned_speeds(question, learned)
    assert same == learned
    assert np.array_equal(again.steps.terms, believed.steps.terms)
    off = []
    for at, job in enumerate(question.index.tolist()):
        most = question.demands.limit[at, -2:].astype(int).tolist()
        expected = set(tried_sizes(most[0], 0 if question.is_ring[at] else most[1]))
        assert set(first[job][0]) == expected
        assert set(learned[job][0]) == expected | {(4, 0 if question.is_ring[at] else 3)}
        workers, servers = np.maximum(np.array(learned[job][0], float).T, 1)
        truth = question.steps[at].step_seconds(workers, servers)
        off += np.abs(believed.steps[at].step_seconds(workers, servers) / truth - 1).tolist()
    assert np.median(off) < 0.1
    assert not np.array_equal(tried.steps.terms, believed.steps.terms)


def test_a_run_learns_and_gives_the_same_again() -> None:
    trace, cluster = trace_of_seed(4, 12), machines(6)
    known = run(trace, cluster, "optimus").record.jobs["finish_seconds"].to_list()
    learned = [run(trace, cluster, "optimus", {"speeds": "learned"}).record.jobs for _ in range(2)]
    assert learned[0].equals(learned[1])
    finishes = learned[0]["finish_seconds"].to_list()
    assert None not in finishes
    assert finishes != known
    assert np.mean(finishes) == pytest.approx(np.mean(known), rel=0.25)


@pytest.mark.parametrize("other", [{"layers": "true"}, {"promote_after_seconds": "60"}])
def test_what_learning_does_not_go_with_is_refused(other: dict[str, str]) -> None:
    with pytest.raises(InputError, match="speeds=learned"):
        build("optimus", {"speeds": "learned", **other})
