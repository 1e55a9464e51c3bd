"""The margin of an order: how far before a running job a waiting one must be to go before it, under joint."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from tests.building import cluster_of, job, jobs_of, run


def starts(scheduler: str, settings: Mapping[str, str], *submits: float) -> list[tuple[str, float]]:
    """Which of some long jobs begins to run when, on one GPU."""
    jobs = jobs_of(*(job(submit, 10_000) for submit in submits))
    spans = run(jobs, cluster_of(1), scheduler, settings).record.allocations
    return spans.sort("from_seconds").select("job_id", pl.col("from_seconds")).rows()


def test_under_joint_a_waiting_job_has_attained_half_at_most() -> None:
    # Each runs until it has attained more than twice as much; at the same the one that came first goes on.
    found = starts("las+joint", {"quantum_seconds": "100"}, 0, 1000)
    assert found == [("0", 0), ("1", 1000), ("0", 3000), ("1", 6100), ("0", 12300), ("1", 18200)]


def test_elsewhere_jobs_take_turns_each_quantum() -> None:
    found = starts("las+tune-plus", {"quantum_seconds": "100"}, 0, 1000)
    assert found[:6] == [("0", 0), ("1", 1000), ("0", 2000), ("1", 2100), ("0", 2200), ("1", 2300)]
    assert len(found) == 182


@pytest.mark.parametrize("allocation", ["joint", "tune-plus"])
def test_queues_know_no_margin(allocation: str) -> None:
    # In the last queue a job waits for one in the queue before, although that has attained more than half as much.
    found = starts(f"las+{allocation}", {"queues": "100,1000", "quantum_seconds": "1"}, 0, 10)
    assert found == [("0", 0), ("1", 100), ("0", 200), ("1", 1100), ("0", 2000), ("1", 11000)]
