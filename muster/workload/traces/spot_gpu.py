"""Alibaba's spot GPUs, 2026: `job_info_df.csv`, jobs of high priority and jobs on what these leave free."""

from __future__ import annotations

import polars as pl

from muster.workload.traces.cleaning import Cells, Reading, has_all
from muster.workload.traces.content import Content, TraceTable

_NAMES = {
    "job_id": "job_name",
    "submit_seconds": "submit_time",
    "duration_seconds": "duration",
    "gpus": "gpu_request",
    "cpus": "cpu_request",
    "tenant": "organization",
    "constraint": "gpu_model",
    "qos": "job_type",
}
_NEEDED = (*_NAMES.values(), "worker_num")
_GUARANTEED, _SPOT = "HP", "Spot"

EXPECTED = f"columns {', '.join(_NEEDED)}"


def recognise(content: Content) -> bool:
    """The columns of the table of jobs."""
    return isinstance(content, TraceTable) and has_all(content.header, _NEEDED)


def read(content: Content) -> Reading:
    """Requests are those of one worker. Jobs of high priority go first and are not interrupted, those on spot are."""
    assert isinstance(content, TraceTable)
    cells = Cells(content, _NAMES)
    workers, kind = cells.amounts("worker_num"), cells.text("qos")
    unknown = ~kind.is_in((_GUARANTEED, _SPOT))
    cells.checks.refuse(unknown, "qos", kind, f"allowed: {_GUARANTEED} or {_SPOT}")
    columns = {
        "job_id": cells.text("job_id"),
        "submit_seconds": cells.numbers("submit_seconds"),
        "duration_seconds": cells.numbers("duration_seconds"),
        "gpus": cells.amounts("gpus") * workers,
        "cpus": cells.amounts("cpus") * workers,
        "tenant": cells.text("tenant"),
        "qos": kind,
        "priority": (kind == _GUARANTEED).cast(pl.Float64),
        "preemptible": kind == _SPOT,
        "constraint": cells.text("constraint"),
    }
    reading = cells.reading(columns)
    reading.drop_without_gpus()
    reading.whole_gpus()
    reading.require_gpu_type("constraint")
    reading.only_positive("cpus")
    reading.clamp_durations()
    return reading
