"""Muster's own form: the columns of `columns.COLUMNS`, as CSV or Parquet."""

from __future__ import annotations

from muster.workload.traces.cleaning import Reading
from muster.workload.traces.columns import LINE
from muster.workload.traces.content import Content, TraceTable

EXPECTED = "columns job_id, submit_seconds, gpus and one of iterations, duration_seconds, gpu_work_seconds"


def recognise(content: Content) -> bool:
    """Whether two of the three columns that every native trace has are there: a slip is reported, not guessed."""
    needed = ("job_id", "submit_seconds", "gpus")
    return isinstance(content, TraceTable) and sum(name in content.header for name in needed) >= 2


def read(content: Content) -> Reading:
    """The cells as they are; nothing is cleaned, everything is checked."""
    assert isinstance(content, TraceTable)
    return Reading(content.cells.with_columns(content.lines.alias(LINE)))
