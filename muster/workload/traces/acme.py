"""AcmeTrace, 2023: the job traces of Shanghai AI Laboratory's clusters Seren (Slurm) and Kalos (containers)."""

from __future__ import annotations

import polars as pl

from muster.workload.traces.cleaning import Cells, Reading, has_all
from muster.workload.traces.content import Content, TraceTable

_NAMES = {
    "submit_seconds": "submit_time",
    "start_seconds": "start_time",
    "end_seconds": "end_time",
    "gpus": "gpu_num",
    "duration_seconds": "duration",
    "cpus": "cpu_num",
    "nodes": "node_num",
    "memory_gb": "mem_per_pod_GB",
    "status": "state",
}
_NEEDED = (
    *("job_id", "user", "node_num", "gpu_num", "cpu_num", "type"),
    *("state", "submit_time", "start_time", "end_time", "duration"),
)

EXPECTED = f"columns {', '.join(_NEEDED)}"


def recognise(content: Content) -> bool:
    """The columns that both clusters have."""
    return isinstance(content, TraceTable) and has_all(content.header, _NEEDED)


def read(content: Content) -> Reading:
    """A job runs from its start to its end. Without an end, Kalos counts `duration` from the submission."""
    assert isinstance(content, TraceTable)
    cells = Cells(content, _NAMES)
    submit, start, end = (cells.times(name) for name in ("submit_seconds", "start_seconds", "end_seconds"))
    lasted = cells.numbers("duration_seconds")
    ends_of_kalos = [name for name in ("fail_time", "stop_time") if name in content.header]
    for name in ends_of_kalos:
        end = end.fill_null(cells.times(name))
    if ends_of_kalos:
        end = end.fill_null(submit + lasted)
    nodes = cells.amounts("nodes")
    columns = {
        "job_id": cells.text("job_id"),
        "submit_seconds": submit,
        "start_seconds": start,
        "end_seconds": end,
        "duration_seconds": (end - start).fill_null(lasted),
        "gpus": cells.numbers("gpus"),
        "nodes": nodes,
        "cpus": cells.amounts("cpus"),
        "user": cells.text("user"),
        "status": cells.text("status"),
        "type": cells.text("type"),
    }
    amounts = ["cpus"]
    if "mem_per_pod_GB" in content.header:
        columns["memory_gb"] = cells.amounts("memory_gb") * nodes
        amounts.append("memory_gb")
    reading = cells.reading(columns)
    reading.drop_without_gpus()
    reading.drop(pl.col("submit_seconds").is_null(), "no submission time")
    reading.drop_open()
    reading.drop(pl.col("start_seconds").is_null(), "never started")
    reading.drop(pl.col("duration_seconds").is_null(), "not finished when the log ends")
    reading.only_positive(*amounts)
    reading.order_moments()
    reading.possible_nodes()
    reading.clamp_durations()
    reading.start_at_zero()
    return reading
