"""Why one job of a recorded run waited: each stretch with its reason, and which jobs held GPUs or started meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

import polars as pl

from muster.formatting import counted, duration, gpus
from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.runtime.records import Record
from muster.schedulers.reasons import NEEDS, REASONS, reason

_NAMED_AT_MOST = 5
_SHOWN_AT_MOST = 10


@dataclass(frozen=True)
class Wait:
    """A stretch of time in which a job waited for one reason."""

    from_seconds: float
    to_seconds: float
    reason: str
    details: Mapping[str, float]
    held_by: list[str]
    """Jobs with an allocation when the stretch began, those with the most GPUs first."""
    held_gpus: float
    """GPUs that they held."""
    started: list[str]
    """Jobs that started in the stretch, or at its end where this job did not."""
    passed_by: list[str]
    """Those of them that were submitted later."""
    ran_for_seconds: float
    """Seconds that the job had run when an interruption began the stretch; 0: it had not."""

    def sentences(self, job_gpus: float) -> Iterator[str]:
        """For people; the job asks for so many GPUs."""
        if self.ran_for_seconds:
            yield f"Interrupted at {self.from_seconds:,.0f} s, after {duration(self.ran_for_seconds)}."
        yield (
            f"{self.from_seconds:,.0f} to {self.to_seconds:,.0f} s "
            f"({duration(self.to_seconds - self.from_seconds)}): {_words(self.reason, self.details, job_gpus)}."
            f"{self._holders()}"
        )
        if self.started:
            yield f"{counted(len(self.started), 'job')} started meanwhile{_named(self.started)}{self._later()}."

    def _holders(self) -> str:
        if self.held_by:
            return f" {counted(len(self.held_by), 'job')} held {gpus(self.held_gpus)}{_named(self.held_by)}."
        return (
            " No job held GPUs: they were down or not released yet." if self.details.get("free") == 0 else ""
        )

    def _later(self) -> str:
        if not self.passed_by:
            return ""
        if len(self.passed_by) < len(self.started):
            return f", {len(self.passed_by)} of them submitted later"
        return ", all submitted later" if len(self.started) > 1 else ", submitted later"


@dataclass(frozen=True)
class WaitsOfJob:
    """An answer to `muster why JOB --record DIR`."""

    job_id: str
    scheduler: str
    gpus: float
    submit_seconds: float
    start_seconds: float | None
    outcome: str
    wait_seconds: float
    waits: list[Wait]

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    def sentences(self) -> Iterator[str]:
        """For people."""
        began = "never started" if self.start_seconds is None else f"started at {self.start_seconds:,.0f} s"
        refused = f": {_words('fits_nowhere', {}, self.gpus)}" if self.outcome == "refused" else ""
        times = sum(wait.ran_for_seconds > 0 for wait in self.waits)
        stopped = f" and was interrupted {counted(times, 'time')}" if times else ""
        yield (
            f"Job {self.job_id} ({gpus(self.gpus)}, submitted at {self.submit_seconds:,.0f} s) {began} under "
            f"{self.scheduler}; it waited {duration(self.wait_seconds)} in all{stopped}. "
            f"Outcome: {self.outcome}{refused}."
        )
        by_length = sorted(self.waits, key=lambda wait: wait.from_seconds - wait.to_seconds)
        for wait in sorted(by_length[:_SHOWN_AT_MOST], key=lambda wait: wait.from_seconds):
            yield from wait.sentences(self.gpus)
        if shorter := by_length[_SHOWN_AT_MOST:]:
            seconds = sum(wait.to_seconds - wait.from_seconds for wait in shorter)
            yield (
                f"{counted(len(shorter), 'shorter wait')}, {duration(seconds)} in all, "
                f"{'is' if len(shorter) == 1 else 'are'} left out; --json has them."
            )


def reason_text(name: str, parameters: str, job_gpus: float) -> str:
    """A row of the record's reasons as a sentence, of a job that asks for so many GPUs.

    A reason of another version is its name.
    """
    return _words(name, json.loads(parameters or "{}"), job_gpus) if name in REASONS else name


def _words(name: str, details: Mapping[str, float], job_gpus: float) -> str:
    kind = reason(REASONS[name])
    at_least = details.get(NEEDS, inf) < job_gpus
    return kind.words(*(details.get(number, 0.0) for number in (kind.a, kind.b)), at_least=at_least)


def waits_of(record: Record, job_id: str) -> WaitsOfJob:
    """The waits of one job; `InputError` if the record does not have it."""
    found = record.jobs.filter(pl.col("job_id") == job_id)
    if found.is_empty():
        hint = did_you_mean(job_id, record.jobs["job_id"].to_list())
        raise InputError(
            Problem(
                "JOB",
                with_hint("this run has no such job", hint),
                found=job_id,
            )
        )
    job = found.row(0, named=True)
    rows = record.reasons.filter(pl.col("job_id") == job_id).sort("from_seconds")
    waited_until = [job["start_seconds"], *rows["to_seconds"]]
    return WaitsOfJob(
        job_id,
        record.scheduler,
        job["gpus"],
        job["submit_seconds"],
        job["start_seconds"],
        job["outcome"],
        float((rows["to_seconds"] - rows["from_seconds"]).sum()),
        [
            _wait(record, job_id, row, until)
            for row, until in zip(rows.iter_rows(named=True), waited_until, strict=False)
        ],
    )


def _wait(record: Record, job_id: str, row: Mapping[str, Any], waited_until: float | None) -> Wait:
    """One stretch, with what the allocations say of the other jobs; the one before it ended at `waited_until`."""
    others = record.allocations.filter(pl.col("job_id") != job_id)
    since, until = row["from_seconds"], row["to_seconds"]
    held = (
        others.filter((pl.col("from_seconds") <= since) & (pl.col("to_seconds") > since))
        .group_by("job_id")
        .agg(pl.col("gpus").sum())
        .sort(["gpus", "job_id"], descending=[True, False])
    )
    first = others.group_by("job_id").agg(pl.col("from_seconds").min())
    meanwhile = first.filter((pl.col("from_seconds") >= since) & (pl.col("from_seconds") < until)).sort(
        ["from_seconds", "job_id"]
    )
    started = meanwhile["job_id"].to_list()
    submitted = record.jobs.select("job_id", "submit_seconds")
    own = submitted.filter(pl.col("job_id") == job_id)["submit_seconds"].item()
    later = set(submitted.filter(pl.col("submit_seconds") > own)["job_id"].to_list())
    return Wait(
        since,
        until,
        row["reason"],
        json.loads(row["parameters"]),
        held["job_id"].to_list(),
        float(held["gpus"].sum()),
        started,
        [job for job in started if job in later],
        0.0 if waited_until is None else max(since - waited_until, 0.0),
    )


def _named(jobs: list[str]) -> str:
    """The first of them in brackets."""
    if not jobs:
        return ""
    more = ", ..." if len(jobs) > _NAMED_AT_MOST else ""
    return f" ({', '.join(jobs[:_NAMED_AT_MOST])}{more})"
