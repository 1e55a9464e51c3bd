"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, comments after a semicolon."""

from __future__ import annotations

import polars as pl

from muster.workload.traces.cleaning import Cells, Reading
from muster.workload.traces.columns import Number
from muster.workload.traces.content import Content, TraceTable
from muster.workload.traces.headerless import SWF_COLUMNS

EXPECTED = "lines of 18 numbers with space between them, after comments that begin with a semicolon"

_BYTES_PER_KB = 1024
_NAMES = {
    "job_id": "job number",
    "submit_seconds": "submit time",
    "duration_seconds": "run time",
    "gpus": "requested processors",
    "time_limit_seconds": "requested time",
    "memory_gb": "requested memory",
    "start_seconds": "wait time",
}
_STATES = {0: "FAILED", 1: "COMPLETED", 2: "PART", 3: "PART", 4: "PART", 5: "CANCELLED"}


def recognise(content: Content) -> bool:
    """Whether the file was split as such a one."""
    return isinstance(content, TraceTable) and content.header == list(SWF_COLUMNS)


def read(content: Content) -> Reading:
    """Processors become GPUs: the format knows no others, and a gang of processors spreads over nodes like one."""
    assert isinstance(content, TraceTable)
    cells = Cells(content, _NAMES)

    def known(column: str) -> pl.Series:
        allowed = "a number from 0 to 1e12, or -1 where it is not known"
        values = cells.checks.number(cells.raw(column), Number(column, -1, 1e12, allowed))
        return values.set((values < 0).fill_null(value=False), None)

    def name(column: str) -> pl.Series:
        cell = cells.text(column)
        return cell.set(cell == "-1", "")

    submit, run = known("submit_seconds"), known("duration_seconds")
    start = submit + known("start_seconds")
    requested, allocated = known("gpus"), known("allocated processors")
    processors = requested.set((requested == 0).fill_null(value=False), None).fill_null(allocated)
    columns = {
        "job_id": cells.text("job_id"),
        "submit_seconds": submit,
        "start_seconds": start,
        "end_seconds": start + run,
        "duration_seconds": run,
        "time_limit_seconds": known("time_limit_seconds"),
        "gpus": processors,
        "memory_gb": known("memory_gb") * processors * _BYTES_PER_KB / 1e9,
        "user": name("user"),
        "tenant": name("group"),
        "qos": name("queue"),
        "partition": name("partition"),
        "status": known("status").replace_strict(_STATES, default="", return_dtype=pl.String),
    }
    reading = cells.reading(columns)
    reading.notes.append("SWF counts processors: each is taken as a GPU")
    reading.drop(pl.col("status") == "PART", "parts of jobs that have a line of their own")
    reading.drop_without_gpus()
    never = (pl.col("status") == "CANCELLED") & (pl.col("duration_seconds").fill_null(0) == 0)
    reading.drop(never, "never started (cancelled while waiting)")
    reading.drop(pl.col("duration_seconds").is_null(), "no run time")
    reading.only_positive("memory_gb", "time_limit_seconds")
    reading.clamp_durations()
    reading.clamp_limits()
    return reading
