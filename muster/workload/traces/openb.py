"""Alibaba openb, 2023: pods that ask for whole GPUs or for thousandths of one, with CPU and memory."""

from __future__ import annotations

import polars as pl

from muster.units import GB_PER_MIB
from muster.workload.traces.cleaning import Cells, Reading, has_all
from muster.workload.traces.content import Content, TraceTable

_NAMES = {"job_id": "name", "gpus": "num_gpu", "submit_seconds": "creation_time", "status": "pod_phase"}
_NEEDED = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
"""Those of the list of nodes that comes with the pods."""

EXPECTED = f"columns {', '.join(_NEEDED)}"


def recognise(content: Content) -> bool:
    """The columns that a pod's size and times are in."""
    return isinstance(content, TraceTable) and has_all(content.header, _NEEDED)


def recognise_nodes(content: Content) -> bool:
    """Whether this is the list of nodes: a cluster, not a trace."""
    return isinstance(content, TraceTable) and has_all(content.header, NODE_COLUMNS)


def read(content: Content) -> Reading:
    """A pod runs from `scheduled_time` to `deletion_time`; `gpu_spec` becomes the constraint."""
    assert isinstance(content, TraceTable)
    cells = Cells(content, _NAMES)
    milli = cells.numbers("gpu_milli")
    columns = {
        "job_id": cells.text("name"),
        "submit_seconds": cells.times("creation_time"),
        "gpus": cells.numbers("num_gpu"),
        "gpu_milli": milli,
        "cpus": cells.numbers("cpu_milli") / 1000,
        "memory_gb": cells.numbers("memory_mib") * GB_PER_MIB,
        "start_seconds": cells.times("scheduled_time"),
        "end_seconds": cells.times("deletion_time"),
    }
    for native, name in (("status", "pod_phase"), ("constraint", "gpu_spec")):
        if name in content.header:
            columns[native] = cells.text(name)
    reading = cells.reading(columns)
    reading.drop_without_gpus()
    reading.drop(pl.col("start_seconds").is_null(), "never scheduled")
    reading.drop(pl.col("end_seconds").is_null(), "not deleted when the log ends")
    ran = pl.col("end_seconds") - pl.col("start_seconds")
    reading.frame = reading.frame.with_columns(ran.alias("duration_seconds"))
    reading.only_positive("cpus", "memory_gb")
    if "constraint" in columns:
        reading.require_gpu_type("constraint")
    reading.clamp_durations()
    reading.start_at_zero()
    return reading
