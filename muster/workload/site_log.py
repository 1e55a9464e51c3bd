"""A site's log as a whole: the jobs that a trace has, and those that it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from muster.workload.jobs import GPU_TYPE
from muster.workload.models import Model
from muster.workload.trace import Trace, trace_from
from muster.workload.traces import sacct
from muster.workload.traces.content import open_content

_COLUMNS = (
    *("job_id", "user", "tenant", "partition", "status", "gpus", "cpus", "memory_gb", "nodes", "node_list"),
    "constraint",
    *("submit_seconds", "start_seconds", "end_seconds", "time_limit_seconds", "duration_seconds"),
)
_WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD")


@dataclass(frozen=True)
class SiteLog:
    """What happened at a site."""

    trace: Trace
    """Jobs with GPUs that ended."""
    jobs: pl.DataFrame
    """All jobs, with a column `open`: those that wait or run when the log ends, and those without GPUs are here too.

    Time 0 is the first submission of all of them; that of the trace may be later.
    """
    notes: tuple[str, ...]
    """What was cleaned, and what is not simulated of the jobs that wait."""
    lacks: tuple[str, ...] = ()
    """Columns that say which jobs wait and run, and are not in it."""


def read_site_log(
    path: Path, mapping: Mapping[str, str] | None = None, models: Mapping[str, Model] | None = None
) -> SiteLog:
    """Read a log. Only Slurm's accounting has more jobs than its trace."""
    content = open_content(path)
    trace = trace_from(content, mapping=mapping, models=models)
    is_slurm = mapping is None and sacct.recognise(content)
    notes = list(trace.notes)
    everything = trace.jobs
    lacks = sacct.lacks_of_a_queue(content) if is_slurm else ()
    if is_slurm:
        reading = sacct.read_all(content)
        cleaned = len(reading.notes)
        sacct.each_task(reading)
        notes += reading.notes[cleaned:]
        everything = _of_slurm(reading.frame)
    missing = [name for name in _COLUMNS if name not in everything.columns]
    everything = everything.with_columns(pl.lit("").alias(name) for name in missing)
    if sacct.OPEN not in everything.columns:
        everything = everything.with_columns(pl.lit(value=False).alias(sacct.OPEN))
    return SiteLog(trace, everything.select(*_COLUMNS, sacct.OPEN), tuple(notes), lacks)


def _of_slurm(frame: pl.DataFrame) -> pl.DataFrame:
    """All rows, with time 0 at the first submission of any; what waits has no start, whatever Slurm expects."""
    zero = pl.col("submit_seconds").min()
    typed = pl.when(pl.col("gpu_type") != "").then(GPU_TYPE + pl.col("gpu_type")).otherwise(pl.lit(""))
    waits = pl.col("status").is_in(_WAITS) & pl.col(sacct.OPEN)
    start = pl.when(~waits & pl.col("started")).then(pl.col("start_seconds") - zero)
    end = pl.when(~pl.col(sacct.OPEN)).then(pl.col("end_seconds") - zero)
    return frame.with_columns(
        pl.col("submit_seconds") - zero,
        typed.alias("constraint"),
        start.alias("start_seconds"),
        pl.coalesce(end, pl.when(~pl.col(sacct.OPEN)).then(start + pl.col("duration_seconds"))).alias(
            "end_seconds"
        ),
    )
