"""`muster why --record`: why a job of a recorded run waited."""

from __future__ import annotations

import pytest

from muster.problems import InputError
from muster.runtime.records import Record
from muster.runtime.waits import waits_of
from tests.building import cluster_of, job, jobs_of, run


def three_jobs() -> Record:
    """Two GPUs: job 0 holds both until 100 s, job 1 needs both, job 2 needs one and comes last."""
    trace = jobs_of(job(0, 100, gpus=2), job(10, 50, gpus=2), job(20, 30))
    return run(trace, cluster_of(2), "fifo-strict").record


def test_a_wait_names_the_holders_and_who_started() -> None:
    record = three_jobs()
    first, second = (waits_of(record, name) for name in ("1", "2"))
    (wait,) = first.waits
    assert (wait.from_seconds, wait.to_seconds, wait.reason) == (10, 100, "no_gpus")
    assert (wait.held_by, wait.held_gpus, wait.started) == (["0"], 2, [])
    assert [one.reason for one in second.waits] == ["behind_head", "no_gpus"]
    assert second.waits[1].held_by == ["1"]
    assert second.waits[0].held_by == ["0"]
    assert second.wait_seconds == 130


def test_a_job_that_passed_another_one_is_named() -> None:
    trace = jobs_of(job(0, 100), job(10, 50, gpus=2), job(20, 30))
    waits = waits_of(run(trace, cluster_of(2), "fifo").record, "1")
    assert waits.waits[0].started == ["2"]
    assert waits.waits[0].passed_by == ["2"]
    assert "1 of them submitted later" in " ".join(waits.sentences())


def test_an_unknown_job_is_an_error() -> None:
    with pytest.raises(InputError, match="found '17'; this run has no such job"):
        waits_of(three_jobs(), "17")
