"""Alibaba's GPU trace of 2026: its hourly table of pods. Its table of executions says nothing of when they were."""

from __future__ import annotations

import polars as pl

from muster.problems import InputError, Problem
from muster.workload.traces.cleaning import Cells, Reading, has_all
from muster.workload.traces.content import Content, TraceTable

_NAMES = {
    "job_id": "pod_id",
    "gpus": "gpu_request",
    "constraint": "gpu_spec_public",
    "cpus": "cpu_request_cores",
}
_POD = ("pod_id", "priority_class", "gpu_spec_public", "gpu_request")
_NEEDED = (*_POD, "state_public", "day", "hour")
_SUMMARY = (*_POD, "duration_hours")
_HOUR = 3600.0

EXPECTED = f"columns {', '.join(_NEEDED)}"


def recognise(content: Content) -> bool:
    """The columns of either table; the one without times is refused with the reason."""
    return isinstance(content, TraceTable) and (
        has_all(content.header, _NEEDED) or has_all(content.header, _SUMMARY)
    )


def read(content: Content) -> Reading:
    """A pod comes in the first hour that names it and works as many whole hours as it is seen running."""
    assert isinstance(content, TraceTable)
    if not has_all(content.header, _NEEDED):
        what = (
            "this table does not say when a pod came; allowed: asi_opensource_pod_hourly, with day and hour"
        )
        raise InputError(Problem(content.where, what))
    cells = Cells(content, _NAMES)
    columns = {
        "job_id": cells.text("job_id"),
        "hour": cells.amounts("day") * 24 + cells.amounts("hour"),
        "running": cells.text("state_public") == "Running",
        "gpus": cells.amounts("gpus"),
        "qos": cells.text("priority_class"),
        "constraint": cells.text("constraint"),
    }
    for native, name in (("user", "workload_id"), ("type", "job_type_public")):
        if name in content.header:
            columns[native] = cells.text(name)
    if "cpu_request_cores" in content.header:
        columns["cpus"] = cells.amounts("cpus")
    for name in ("day", "hour"):
        cells.checks.refuse(
            cells.raw(name).is_null(), name, None, "is empty; allowed: a whole number from 0 on"
        )
    reading = cells.reading(columns)
    last = reading.frame["hour"].max()
    rest = [name for name in reading.frame.columns if name not in ("job_id", "hour", "running")]
    reading.frame = reading.frame.group_by("job_id", maintain_order=True).agg(
        (pl.col("hour").min() * _HOUR).alias("submit_seconds"),
        (pl.col("hour").filter("running").n_unique() * _HOUR).alias("duration_seconds"),
        (pl.col("hour").max() == last).alias("open"),
        *(pl.col(name).first() for name in rest),
    )
    reading.notes.append("times are whole hours: the table says no more")
    reading.drop_without_gpus()
    reading.drop(pl.col("open"), "not finished when the log ends")
    reading.drop(pl.col("duration_seconds") == 0, "never started")
    reading.frame = reading.frame.drop("open").with_columns(
        (pl.col("qos") == "HP").cast(pl.Float64).alias("priority"),
        (pl.col("qos") == "LP").alias("preemptible"),
    )
    reading.whole_gpus()
    reading.require_gpu_type("constraint")
    if "cpus" in columns:
        reading.only_positive("cpus")
    reading.start_at_zero()
    return reading
