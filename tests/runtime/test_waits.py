"""`muster why --record`: why a job of a recorded run waited."""

from __future__ import annotations

import pytest

from muster.problems import InputError
from muster.runtime.records import Record
from muster.runtime.waits import waits_of
from muster.simulation.failures import Failures
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
    assert "1 job started meanwhile (2), submitted later." in " ".join(waits.sentences())


def test_a_wait_after_an_interruption_says_so() -> None:
    trace = jobs_of(job(0, 1000, gpus=2), job(200, 100, priority=1.0), job(200, 50, priority=1.0))
    waits = waits_of(run(trace, cluster_of(2), "priority").record, "0")
    assert [(wait.from_seconds, wait.ran_for_seconds) for wait in waits.waits] == [(200, 200), (250, 0)]
    text = " ".join(waits.sentences())
    assert "it waited 1.67 min in all and was interrupted 1 time." in text
    assert "Interrupted at 200 s, after 3.33 min. 200 to 250 s" in text
    assert "2 jobs started meanwhile (1, 2), all submitted later." in text


def test_a_wait_for_a_node_that_is_down_names_no_holders() -> None:
    trace = jobs_of(job(0, 100_000, gpus=2))
    waits = waits_of(run(trace, cluster_of(2), "fifo", failures=Failures(36_000.0, 600.0)).record, "0")
    assert waits.waits
    assert "0 are free. No job held GPUs: they were down or not released yet." in " ".join(waits.sentences())


def test_a_job_that_fits_nowhere_is_explained() -> None:
    trace = jobs_of(job(0, 100), job(10, 50, gpus=64))
    record = run(trace, cluster_of(2), "fifo", skip_impossible=True).record
    assert list(waits_of(record, "1").sentences()) == [
        "Job 1 (64 GPUs, submitted at 10 s) never started under fifo+proportional+pack; it waited 0 s in all. "
        "Outcome: refused: it would not fit if the whole cluster were free."
    ]


def test_the_longest_of_many_waits_are_shown() -> None:
    turns = [job(100 * at, 10 + at, priority=1.0) for at in range(15)]
    waits = waits_of(run(jobs_of(job(0, 5000), *turns), cluster_of(1), "priority").record, "0")
    assert len(waits.waits) == 15
    shown = [sentence for sentence in waits.sentences() if "it needs" in sentence]
    assert len(shown) == 10
    assert "1,400 to 1,424 s" in shown[-1]
    assert "5 shorter waits, 1.00 min in all, are left out; --json has them." in waits.sentences()


def test_an_unknown_job_is_an_error() -> None:
    with pytest.raises(InputError, match="found '17'; this run has no such job"):
        waits_of(three_jobs(), "17")
