"""SenseTime Helios, 2020: `cluster_log.csv` of one of its clusters."""

from __future__ import annotations

import polars as pl

from muster.workload.traces.cleaning import Cells, Reading, has_all
from muster.workload.traces.content import Content, TraceTable

_NAMES = {
    "submit_seconds": "submit_time",
    "gpus": "gpu_num",
    "duration_seconds": "duration",
    "tenant": "vc",
    "cpus": "cpu_num",
    "start_seconds": "start_time",
    "end_seconds": "end_time",
    "nodes": "node_num",
    "status": "state",
}
_NEEDED = (
    "job_id",
    "user",
    "state",
    *(_NAMES[name] for name in ("submit_seconds", "gpus", "duration_seconds", "tenant")),
)

EXPECTED = "columns job_id, user, vc, gpu_num, cpu_num, state, submit_time, start_time, duration"


def recognise(content: Content) -> bool:
    """The columns without which a Helios log says nothing."""
    return isinstance(content, TraceTable) and has_all(content.header, _NEEDED)


def read(content: Content) -> Reading:
    """Virtual clusters become tenants; starts are kept. Jobs without GPUs (more than half of them) are left out."""
    assert isinstance(content, TraceTable)
    cells = Cells(content, _NAMES)
    columns = {
        "job_id": cells.text("job_id"),
        "submit_seconds": cells.times("submit_seconds"),
        "gpus": cells.numbers("gpus"),
        "duration_seconds": cells.numbers("duration_seconds"),
        "tenant": cells.text("tenant"),
        "user": cells.text("user"),
        "status": cells.text("status"),
    }
    for native, read_cells in (
        ("cpus", cells.numbers),
        ("nodes", cells.amounts),
        ("start_seconds", cells.times),
    ):
        if _NAMES[native] in content.header:
            columns[native] = read_cells(native)
    if "start_seconds" in columns:
        ran = columns["duration_seconds"]
        ends = "end_time" in content.header
        columns["end_seconds"] = cells.times("end_seconds") if ends else columns["start_seconds"] + ran
    reading = cells.reading(columns)
    reading.drop_without_gpus()
    reading.drop_open()
    if "start_seconds" in columns:
        reading.drop(pl.col("start_seconds").is_null(), "never started")
        reading.order_moments()
    if "nodes" in columns:
        reading.possible_nodes()
    if "cpus" in columns:
        reading.only_positive("cpus")
    reading.clamp_durations()
    reading.start_at_zero()
    return reading
