"""The stories of a page say of a job what `muster why JOB --record DIR` says, for the jobs that the page lists."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from muster.cli.app import run
from muster.inputs import knowledge_of
from muster.problems import InputError, Problem
from muster.report import holding as module
from muster.report.embedded import RunTables, embedded, run_tables
from muster.report.holding import holding_sentences, jobs_with_sentences
from muster.report.record import read_record
from muster.runtime.recorded_holding import Knowledge
from tests.report.hand_made import scheduled
from tests.report.test_embedded import Block

TRACE = """job_id,submit_seconds,gpus,duration_seconds,model
a,0,4,600,resnet18
b,10,8,300,gnmt
c,20,1,500,
d,30,2,100,resnet18
z,40,64,10,
"""


def test_stories_say_what_muster_why_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = tmp_path / "trace.csv", tmp_path / "out"
    trace.write_text(TRACE)
    flags = ("--cluster", "1x8gpu,24cpu,500gb", "--scheduler", "las", "--skip-impossible", "--out", str(out))
    assert run(["simulate", str(trace), *flags]) == 0
    record = read_record(out)
    found = holding_sentences(record, list("abcdz"), knowledge_of)
    assert found.keys() == set("abcd"), "z has never run"
    for job, sentences in found.items():
        capsys.readouterr()
        assert run(["why", job, "--record", str(out), "--json"]) == 0
        assert sentences == json.loads(capsys.readouterr().out)["held"]["sentences"]
    assert any("it would" in " ".join(sentences) for sentences in found.values())
    block = Block(embedded(["las"], [replace(run_tables(record), holding=found)]))
    places = {job: str(place) for place, job in enumerate(block.header["ids"])}
    assert block.header["runs"][0]["holding"] == {places[job]: found[job] for job in found}


def test_models_that_are_gone_are_named() -> None:
    def gone(_: object) -> Knowledge:
        raise InputError(Problem("own.toml", "there is no such file"))

    found = holding_sentences(scheduled("fifo", jobs=3), ["0"], gone)
    assert "own.toml" in found["0"][0]


def test_large_runs_have_sentences_of_listed_jobs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = (run_tables(scheduled(order, jobs=60)) for order in ("fifo", "las"))
    assert jobs_with_sentences(first, other) == sorted(first.jobs["job_id"])
    monkeypatch.setattr(module, "EVERY_JOB", 59)
    before, after = (jct_and_wait(run) for run in (first, other))
    for one, two in ((before, after), (dict.fromkeys(before, (0.0, 0.0)), before)):
        listed = jobs_with_sentences(first, other if two is after else first)
        for what in (0, 1):
            change = {job: two[job][what] - one[job][what] for job in two}
            least, most = sorted(change.values())[9], sorted(change.values())[-10]
            assert {job for job in change if change[job] > most} <= set(listed)
            if two is after:
                assert {job for job in change if change[job] < least} <= set(listed)
        assert len(listed) <= (40 if two is after else 20)


def jct_and_wait(run: RunTables) -> dict[str, tuple[float, float]]:
    rows = run.jobs.select(
        "job_id", pl.col("finish_seconds") - pl.col("submit_seconds"), "wait_seconds"
    ).rows()
    return {job: (jct, wait) for job, jct, wait in rows}
