"""Finish-time fairness with leases, against a sequence worked out by hand."""

from __future__ import annotations

import pytest

from tests.building import cluster_of, finishes, job, jobs_of, run


def test_who_is_treated_most_unfairly_gets_the_next_lease() -> None:
    # One GPU for two jobs: alone on half of it they would take 200 s and 20 s. At 0 both have rho 1/2; at 20 the
    # first has (20 + 80) / 200, the second (20 + 10) / 20.
    trace = jobs_of(job(0, 100), job(0, 10))
    assert finishes(run(trace, cluster_of(1), "themis", {"lease_seconds": "20"})) == pytest.approx([110, 30])


def test_a_lease_is_not_broken() -> None:
    trace = jobs_of(job(0, 100), job(1, 10))
    assert finishes(run(trace, cluster_of(1), "themis", {"lease_seconds": "1000"})) == pytest.approx(
        [100, 110]
    )


def test_without_durations_it_goes_by_time_served() -> None:
    # At 20 the first was served all the time, the second never.
    trace = jobs_of(job(0, 100), job(0, 10))
    result = run(trace, cluster_of(1), "themis", {"lease_seconds": "20"}, knowledge="none")
    assert finishes(result) == pytest.approx([110, 30])


def test_a_small_job_gains_nothing_from_a_large_fair_share() -> None:
    # At 150 the first job frees four GPUs. The gang needs 100 s at half speed on its share of two GPUs, so its rho is
    # (150 + 100) / 200; the single GPU, which arrives now, has (0 + 100) / 100. With a share of two GPUs as its
    # yardstick it would have 2 and pass the gang.
    trace = jobs_of(job(0, 150, gpus=4, preemptible=False), job(0, 100, gpus=4), job(150, 100))
    assert finishes(run(trace, cluster_of(4), "ftf")) == pytest.approx([150, 250, 350])
