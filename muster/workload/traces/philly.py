"""Microsoft Philly, 2017: two CSV forms in circulation, and the JSON log that Microsoft published."""

from __future__ import annotations

import polars as pl

from muster.workload.traces import philly_log
from muster.workload.traces.cleaning import Cells, Reading, has_all
from muster.workload.traces.content import Content, Document, TraceTable

_SIZES = ("#job id", "arrival time (sec)", "size", "duration (sec)")
_TENANTS = ("timestamp", "duration", "num_gpus", "cluster")

EXPECTED = f"columns {', '.join(_SIZES)}; or {', '.join(_TENANTS)}; or the JSON cluster_job_log"


def recognise(content: Content) -> bool:
    """One of the two headers, or a list of jobs with attempts."""
    if isinstance(content, Document):
        return philly_log.recognise(content)
    return has_all(content.header, _SIZES) or has_all(content.header, _TENANTS)


def read(content: Content) -> Reading:
    """Virtual clusters become tenants; the form with arrival seconds keeps its own time 0."""
    if isinstance(content, Document):
        return philly_log.read(content)
    return _read_sizes(content) if has_all(content.header, _SIZES) else _read_tenants(content)


def _read_sizes(table: TraceTable) -> Reading:
    names = dict(zip(("job_id", "submit_seconds", "gpus", "duration_seconds"), _SIZES, strict=True))
    cells = Cells(table, names)
    reading = cells.reading(
        {
            "job_id": cells.text("job_id"),
            "submit_seconds": cells.numbers("submit_seconds"),
            "gpus": cells.numbers("gpus"),
            "duration_seconds": cells.numbers("duration_seconds"),
        }
    )
    reading.drop_without_gpus()
    reading.clamp_durations()
    return reading


def _read_tenants(table: TraceTable) -> Reading:
    names = dict(zip(("submit_seconds", "duration_seconds", "gpus", "tenant"), _TENANTS, strict=True))
    cells = Cells(table, names)
    columns = {
        "submit_seconds": cells.times("submit_seconds"),
        "gpus": cells.numbers("gpus"),
        "duration_seconds": cells.numbers("duration_seconds"),
        "tenant": cells.text("tenant"),
    }
    reading = cells.reading(columns)
    reading.drop(~pl.struct(list(columns)).is_first_distinct(), "the same as an earlier row in every cell")
    # This form has no job ids: a job is named by its row among those kept.
    reading.frame = reading.frame.with_row_index("job_id")
    reading.drop_without_gpus()
    reading.clamp_durations()
    reading.start_at_zero()
    return reading
