"""The queues on which the default scheduler is compared with joint are those that they say they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.joint.everyday import Queue, changed, lines, lines_of, queues
from muster.workload.trace import trace_of


def test_each_queue_has_a_name_of_its_own() -> None:
    names = [queue.name for queue in queues()]
    assert len(set(names)) == len(names)


def test_queues_of_the_reference_are_left_out_without_it() -> None:
    assert list(lines("Philly, from", None)) == []
    (line,) = lines("tutorial: compare", None)
    assert line.startswith("tutorial: compare")


def test_a_draft_of_generated_jobs_has_another_seed() -> None:
    generated = [queue for queue in queues() if queue.generated is not None]
    assert len(generated) == 13
    for queue in generated:
        for draft in range(2):
            trace = queue.trace(None, draft)
            assert trace is not None
            assert trace.source.endswith(f"seed {queue.seed + 100 * draft}")


def test_drafts_in_which_no_job_waits_have_a_ratio() -> None:
    trace = trace_of(
        {"job_id": ["a"], "submit_seconds": [0.0], "gpus": [1], "duration_seconds": [60.0]}, "test"
    )
    (line,) = lines_of(Queue("one job", "1x8gpu", generated=lambda _: trace), None, 2)
    assert line.count("1.000 ± 0.000") == 3


def test_a_draft_of_a_log_changes_times_a_little() -> None:
    """Jobs that come together still do; what a job is stays."""
    columns = {
        "job_id": ["a", "b", "c", "d"],
        "submit_seconds": [100.0, 40.0, 100.0, 0.0],
        "gpus": [1, 2, 4, 8],
        "duration_seconds": [60.0, 600.0, 6_000.0, 60_000.0],
    }
    trace = trace_of(columns, "test")
    jobs, again = changed(trace, 1).jobs, changed(trace, 1).jobs
    assert jobs.equals(again)
    assert not jobs.equals(changed(trace, 2).jobs)
    assert jobs.drop("submit_seconds", "duration_seconds").equals(
        trace.jobs.drop("submit_seconds", "duration_seconds")
    )
    for name in ("submit_seconds", "duration_seconds"):
        assert jobs[name].to_list() == pytest.approx(columns[name], rel=0.05)
    assert jobs["submit_seconds"][1] < jobs["submit_seconds"][0] == jobs["submit_seconds"][2]


def test_drafts_have_an_interval() -> None:
    (line,) = lines("tutorial: compare", None, 2)
    assert line.count("±") == 3


@pytest.mark.reference
def test_a_part_of_philly_wants_its_load(reference: Path) -> None:
    """Of 160 GPUs, from its first arrival to its last."""
    for queue in queues():
        name, _, load = queue.name.partition(", load ")
        if not name.startswith("Philly"):
            continue
        trace = queue.trace(reference)
        assert trace is not None
        jobs = trace.jobs
        seconds, submit = jobs["duration_seconds"].to_numpy(), jobs["submit_seconds"].to_numpy()
        work = float((jobs["gpus"].to_numpy() * seconds).sum())
        assert work / (160 * float(submit.max())) == pytest.approx(float(load), rel=1e-3)
