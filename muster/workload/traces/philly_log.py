"""Philly's `cluster_job_log`: a JSON list of jobs, each with its attempts and the GPUs each attempt held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from muster.formatting import counted
from muster.problems import InputError, Problem
from muster.workload.traces.cleaning import NOTHING, Reading
from muster.workload.traces.columns import LINE, Checks
from muster.workload.traces.content import Content, Document
from muster.workload.traces.times import epoch_seconds

_ATTEMPT = {"job": pl.Int64, "start": pl.String, "end": pl.String, "gpus": pl.Int64}


def recognise(content: Content) -> bool:
    """A list whose first entry is a job with attempts."""
    if not isinstance(content, Document) or not isinstance(content.value, list):
        return False
    first = content.value[0] if content.value else None
    return isinstance(first, Mapping) and {"jobid", "attempts"} <= set(first)


def read(content: Content) -> Reading:
    """A job lasts the sum of its attempts, from the start of the first to the end of the last; its size is the largest.

    Starts and ends are kept.
    """
    assert isinstance(content, Document)
    assert isinstance(content.value, list)
    jobs, attempts, problems = _tables(content.value, content.where)
    if problems:
        raise InputError(*problems)
    checks = Checks(content.where, pl.Series(range(1, jobs.height + 1)))
    submit = _times(jobs["submitted"], "submitted_time", checks)
    checks.lines = attempts["job"] + 1
    start = _times(attempts["start"], "attempts.start_time", checks)
    end = _times(attempts["end"], "attempts.end_time", checks)
    checks.raise_if_any()
    moments = {"start_seconds": start, "end_seconds": end, "seconds": end - start}
    ran = (
        attempts.with_columns(**moments, open=start.is_not_null() & end.is_null())
        .group_by("job", maintain_order=True)
        .agg(
            pl.col("gpus").max(),
            pl.col("gpus").n_unique().alias("sizes"),
            pl.col("seconds").sum().alias("duration_seconds"),
            pl.col("start_seconds").min(),
            pl.col("end_seconds").filter(pl.col("start_seconds").is_not_null()).max(),
            pl.col("seconds").count().alias("ended"),
            pl.col("start_seconds").count().alias("started"),
            pl.col("open").last(),
        )
    )
    frame = jobs.with_columns(submit_seconds=submit).join(
        ran, left_on=pl.col(LINE) - 1, right_on="job", how="left", maintain_order="left"
    )
    return _cleaned(frame)


def _cleaned(frame: pl.DataFrame) -> Reading:
    reading = Reading(frame.drop("submitted", "job"))
    reading.drop(pl.col("submit_seconds").is_null(), "no submission time")
    reading.drop(pl.col("ended").is_null(), "never started")
    reading.drop(
        pl.col("open") | (pl.col("ended") == 0), "still running when the log ends, or without an end"
    )
    reading.drop_without_gpus()
    several = int((reading.frame["sizes"] > 1).sum())
    if several:
        reading.notes.append(
            f"size changed between attempts for {counted(several, 'job')}: the largest counts"
        )
    repeated = int((reading.frame["started"] > 1).sum())
    if repeated:
        reading.notes.append(
            f"start of the first attempt and end of the last for {counted(repeated, 'job')} with several: "
            "the history counts the time between them as run"
        )
    reading.frame = reading.frame.drop("sizes", "ended", "started", "open")
    reading.order_moments()
    reading.clamp_durations()
    reading.start_at_zero()
    return reading


def _tables(entries: Sequence[object], where: str) -> tuple[pl.DataFrame, pl.DataFrame, list[Problem]]:
    """Jobs and attempts as two tables; what does not have the form of a job is a problem."""
    jobs: list[dict[str, object]] = []
    attempts: list[dict[str, object]] = []
    problems: list[Problem] = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            problems.append(
                Problem(where, "allowed: a job: an object with jobid and attempts", column=f"[{number}]")
            )
            continue
        tries = entry.get("attempts")
        if not isinstance(tries, list) or not all(isinstance(attempt, Mapping) for attempt in tries):
            problems.append(Problem(where, "allowed: a list of attempts", column=f"[{number}].attempts"))
            continue
        jobs.append(
            {
                "job_id": _text(entry.get("jobid")),
                "submitted": _text(entry.get("submitted_time")),
                "tenant": _text(entry.get("vc")),
                "user": _text(entry.get("user")),
                "status": _text(entry.get("status")),
                LINE: number + 1,
            }
        )
        attempts.extend(
            {
                "job": number,
                "start": _text(attempt.get("start_time")),
                "end": _text(attempt.get("end_time")),
                "gpus": _gpus(attempt.get("detail")),
            }
            for attempt in tries
        )
    schema = {"job_id": pl.String, "submitted": pl.String, "tenant": pl.String, "user": pl.String}
    jobs_frame = pl.DataFrame(jobs, schema={**schema, "status": pl.String, LINE: pl.Int64})
    return jobs_frame, pl.DataFrame(attempts, schema=_ATTEMPT), problems


def _gpus(detail: object) -> int:
    """GPUs that an attempt held, over all its machines."""
    machines = detail if isinstance(detail, list) else []
    held = [machine.get("gpus") for machine in machines if isinstance(machine, Mapping)]
    return sum(len(gpus) for gpus in held if isinstance(gpus, list))


def _text(value: object) -> str | None:
    text = "" if value is None or isinstance(value, list | dict) else str(value).strip()
    return None if not text or text.lower() in NOTHING else text


def _times(texts: pl.Series, name: str, checks: Checks) -> pl.Series:
    seconds = epoch_seconds(texts)
    bad = seconds.is_null() & texts.is_not_null()
    checks.refuse(bad, name, texts, "allowed: a date-time such as 2017-10-03 14:05:02")
    return seconds
