"""`muster why --record` of a moment at which the job ran."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from muster.inputs import knowledge_of
from muster.problems import InputError
from muster.runtime.recorded_holding import holding_of
from muster.runtime.records import Record
from tests.building import cluster_of, job, jobs_of, run

KNOWN = knowledge_of({})


def said(record: Record, name: str, at: float | None = None) -> str:
    found = holding_of(record, name, at, KNOWN)
    assert found is not None
    return " ".join(found.sentences)


def starved() -> Record:
    """Four GPUs with one core each: two jobs of resnet18, which wants more, and one without a model."""
    rows = [job(0, 1000, 2, model="resnet18"), job(100, 500, 1, model="resnet18"), job(200, 300)]
    return run(jobs_of(*rows), cluster_of(4, cpus_per_gpu=1.0), "fifo+proportional").record


def test_it_says_who_has_what_the_job_lacks() -> None:
    record = starved()
    alone = said(record, "0", 50)
    assert "At 50 s: It has 2 GPUs because its owner asks for exactly that." in alone
    assert re.search(r"one more CPU core it would be \d+ % faster; node0 has 2 CPU cores free\.", alone)
    assert "node0 has 1 CPU cores free, job 1 holds the others." in said(record, "0", 150)
    assert "node0 has 0 CPU cores free, jobs 1 and 2 hold the others." in said(record, "0", 250)
    assert "is not known: the trace names no model of it." in said(record, "2")


def test_it_says_who_has_the_gpus_that_an_elastic_job_lacks() -> None:
    """It has two of four GPUs, beside two other jobs and beside one."""
    rows = [job(0, 9_000, gpus=2, min_gpus=2, max_gpus=3, model="resnet50"), job(0, 900), job(0, 900)]
    cluster = cluster_of(4, cpus_per_gpu=12.0)
    faster = r"gives it 2; with one more like these it would be \d+ % faster; "
    for jobs, others in ((rows, "jobs 1 and 2 hold the others"), (rows[:2], "no job holds 1 other")):
        record = run(jobs_of(*jobs), cluster, "fifo+proportional").record
        assert re.search(f"{faster}{others}\\.", said(record, "0", 50))


def test_the_longest_stretch_stands_for_the_run() -> None:
    rows = [job(0, 1000, min_gpus=1, max_gpus=2, model="resnet50"), job(0, 400, preemptible=False)]
    record = run(jobs_of(*rows), cluster_of(2, cpus_per_gpu=12.0), "fifo+joint").record
    stretches = record.allocations.filter(record.allocations["job_id"] == "0")
    longest = max(stretches.iter_rows(named=True), key=lambda row: row["to_seconds"] - row["from_seconds"])
    found = holding_of(record, "0", None, KNOWN)
    assert found is not None
    assert (found.from_seconds, found.to_seconds) == (longest["from_seconds"], longest["to_seconds"])
    assert "Its owner allows 1 to 2 GPUs, and the scheduler gives it" in " ".join(found.sentences)


@pytest.mark.parametrize("scheduler", ["optimus", "fifo"])
@pytest.mark.parametrize("sync", ["ring", "ps"])
def test_a_job_whose_workers_are_counted_gains_by_muster_size(scheduler: str, sync: str) -> None:
    """Its speed is that of its workers; what a gang of its model would gain says nothing."""
    counted = {"sync": sync, "worker_gpus": 1, "max_workers": 2, "nic_gb_per_s": 1.25, "batch": 64}
    if sync == "ps":
        counted |= {"servers": 2, "server_cpus": 1}
    row = {"submit_seconds": 0, "iterations": 900, "gpus": 2, "model": "resnet50", **counted}
    record = run(jobs_of(row), cluster_of(4), scheduler).record
    answer = said(record, "0")
    assert "what more would bring is in `muster size`." in answer
    assert "faster" not in answer


def test_places_count_as_in_the_run() -> None:
    """A gang on two machines gains from one, except in a run without a network."""
    rows = jobs_of(job(0, 900, 2), job(0, 500, 2, model="bert-large"))
    apart = run(rows, cluster_of(1, 2, 1, racks=2), "fifo+pack").record
    assert "On a better place (1 island) it would be" in said(apart, "1")
    without = replace(apart, run={**apart.run, "settings": {**apart.run["settings"], "network": "none"}})
    assert "No other place would make it faster." in said(without, "1")


def test_a_moment_without_the_job_is_refused() -> None:
    record = starved()
    with pytest.raises(
        InputError, match="--at: found 50; allowed: a moment at which the job ran, in seconds: 100 to"
    ):
        holding_of(record, "1", 50, KNOWN)


def test_a_job_that_never_ran_held_nothing() -> None:
    record = run(jobs_of(job(0, 9), job(0, 9, 64)), cluster_of(2), "fifo", skip_impossible=True).record
    assert holding_of(record, "1", None, KNOWN) is None
