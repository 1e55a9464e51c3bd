"""Why jobs of a run had what they had, for the stories of the page: the sentences of `muster why JOB --record DIR`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import polars as pl

from muster.problems import InputError
from muster.report.embedded import RunTables
from muster.runtime.recorded_holding import Knowledge, holding_of, without_models
from muster.runtime.records import Record

KnowledgeOf = Callable[[Mapping[str, str]], Knowledge]
"""What is known of the models of a run, from the files that its command named; InputError if one is gone."""
EVERY_JOB = 200
"""Of runs with up to so many jobs, each job has its sentences; of larger ones, those that the page lists."""
_LISTED = 10
"""Jobs that gained most, and as many that lost most, as in `page.js`."""


def jobs_with_sentences(first: RunTables, other: RunTables) -> list[str]:
    """All jobs of a small run; else those that gained and lost most between two runs, or took longest in one."""
    if first.jobs.height <= EVERY_JOB:
        return sorted(first.jobs["job_id"].to_list())
    alone = first is other
    both = _times(first).join(_times(other), on="job_id", suffix="_after", maintain_order="left")
    found: set[str] = set()
    for what in ("wait", "jct"):
        change = pl.col(f"{what}_after") if alone else pl.col(f"{what}_after") - pl.col(what)
        ordered = both.with_columns(change.alias("change")).sort("change", maintain_order=True)
        found.update(ordered["job_id"].tail(_LISTED).to_list())
        if not alone:
            found.update(ordered["job_id"].head(_LISTED).to_list())
    return sorted(found)


def _times(run: RunTables) -> pl.DataFrame:
    done = run.jobs.filter((pl.col("outcome") == "completed") & pl.col("measured"))
    jct = pl.col("finish_seconds") - pl.col("submit_seconds")
    return done.select("job_id", pl.col("wait_seconds").alias("wait"), jct.alias("jct"))


def holding_sentences(
    record: Record, jobs: Collection[str], knowledge_of: KnowledgeOf
) -> dict[str, list[str]]:
    """What each of these jobs had in its longest stretch and would have gained from more; no entry: it never ran."""
    try:
        known = knowledge_of(record.run.get("named") or {})
    except InputError as gone:
        return {job: [without_models(gone)] for job in jobs}
    found = {job: holding_of(record, job, None, known) for job in jobs}
    return {job: held.sentences for job, held in found.items() if held is not None}
