"""Composed schedulers: what a promoted job gets, and from which jobs."""

from __future__ import annotations

import pytest

from muster.schedulers.ageing import LEAST_TURN_SECONDS
from muster.schedulers.composed import Composed
from muster.schedulers.registry import build
from tests.building import cluster_of, column, job, jobs_of, run


def composed(name: str, **settings: str) -> Composed:
    scheduler = build(name, settings)
    assert isinstance(scheduler, Composed)
    return scheduler


def test_all_running_jobs_stop_where_that_alone_makes_room() -> None:
    """Only the first node holds the gang of four, and half of it is taken; the other node has the other GPUs."""
    trace = jobs_of(job(0, 100, gpus=2), job(1, 5000, gpus=2), job(2, 6000, gpus=4))
    scheduler = composed("srtf+consolidate", promote_after_seconds="500")
    result = run(trace, cluster_of(4, 2), scheduler, restart_cost_seconds=0.0)
    held = result.record.allocations.filter(job_id="1").sort("from_seconds").rows(named=True)
    assert held[0]["node"] == "node0"
    assert column(result, "start_seconds")[2] == pytest.approx(502, abs=301)


@pytest.mark.parametrize(("for_good", "seconds"), [(False, LEAST_TURN_SECONDS), (True, 1000)])
def test_a_job_promoted_for_good_has_more_than_one_turn(for_good: bool, seconds: float) -> None:
    """A long job among short ones that keep coming: for good until the next of them, shorter, is promoted too."""
    trace = jobs_of(job(0, 3000), *(job(100 * n, 100) for n in range(60)))
    scheduler = composed("srtf", promote_after_seconds="1000", promote_for_good=str(for_good).lower())
    result = run(trace, cluster_of(1), scheduler, restart_cost_seconds=0.0)
    held = result.record.allocations.filter(job_id="0").sort("from_seconds")
    begin, end = held.select("from_seconds", "to_seconds").row(0)
    assert begin == pytest.approx(1000, abs=1e-3)
    assert end - begin == pytest.approx(seconds, abs=100)
