"""Alibaba PAI, 2020: `pai_task_table`, the tasks of each job, as a rule without a header."""

from __future__ import annotations

import polars as pl

from muster.formatting import counted
from muster.workload.traces.cleaning import Cells, Reading, has_all
from muster.workload.traces.columns import LINE
from muster.workload.traces.content import Content, TraceTable
from muster.workload.traces.headerless import PAI_COLUMNS, PAI_STATES

_NAMES = {"job_id": "job_name", "submit_seconds": "start_time", "gpus": "plan_gpu"}
_ENDED, _FAILED, *_OPEN = PAI_STATES

EXPECTED = f"columns {', '.join(PAI_COLUMNS)}, or lines of them without a header"


def recognise(content: Content) -> bool:
    """The columns of the table of tasks, whether its header came with it or not."""
    return isinstance(content, TraceTable) and has_all(content.header, PAI_COLUMNS)


def read(content: Content) -> Reading:
    """A job is all of its tasks: their amounts are added, and it lasts from the first start to the last end."""
    assert isinstance(content, TraceTable)
    cells = Cells(content, _NAMES)
    instances = cells.amounts("inst_num")
    tasks = {
        "job_id": cells.text("job_id"),
        "submit_seconds": cells.numbers("submit_seconds"),
        "end": cells.numbers("end_time"),
        # plan_gpu and plan_cpu are in hundredths; plans are those of one instance.
        "gpus": cells.amounts("gpus") * instances / 100,
        "cpus": cells.amounts("plan_cpu") * instances / 100,
        "memory_gb": cells.amounts("plan_mem") * instances,
        "status": cells.text("status"),
        "gpu_type": cells.text("gpu_type"),
    }
    reading = cells.reading(tasks)
    rows = reading.frame.height
    open_task = pl.col("status").is_in(_OPEN) | pl.col("end").is_null()
    status = pl.when((pl.col("status") == _FAILED).any()).then(pl.lit(_FAILED)).otherwise(pl.lit(_ENDED))
    types = pl.col("gpu_type").filter((pl.col("gpus") > 0) & (pl.col("gpu_type") != "")).unique().sort()
    reading.frame = reading.frame.group_by("job_id", maintain_order=True).agg(
        pl.col("submit_seconds").min(),
        (pl.col("end").max() - pl.col("submit_seconds").min()).alias("duration_seconds"),
        pl.col("gpus", "cpus", "memory_gb").sum(),
        status.alias("status"),
        types.str.join("|").alias("gpu_type"),
        open_task.any().alias("open"),
        pl.col(LINE).first(),
    )
    if rows > reading.frame.height:
        reading.notes.append(f"joined {counted(rows, 'task')} into {counted(reading.frame.height, 'job')}")
    reading.drop_without_gpus()
    reading.drop(pl.col("submit_seconds").is_null(), "never started")
    reading.drop(pl.col("open"), "not finished when the log ends")
    reading.frame = reading.frame.drop("open")
    reading.whole_gpus()
    reading.only_positive("cpus", "memory_gb")
    reading.clamp_durations()
    reading.start_at_zero()
    return reading
