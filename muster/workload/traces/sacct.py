"""Slurm's accounting: `sacct -P` (or `--parsable`) with a header, and `sacct --json`; versions 17 to 25."""

from __future__ import annotations

import polars as pl

from muster.workload.traces import sacct_json, sacct_text
from muster.workload.traces.cleaning import Reading
from muster.workload.traces.content import Content, Document

# Slurm says more than one word for a job that goes on: `REQUEUED`, `REQUEUE_HOLD`, `RESIZING`.
_OPEN = r"^(PENDING|RUNNING|SUSPENDED|CONFIGURING|COMPLETING|REQUEUE|RESIZING|SIGNALING|STAGE_OUT|STOPPED)"

EXPECTED = (
    "the output of sacct --json, or of sacct -P "
    "--format=JobID,User,Account,Partition,QOS,Priority,State,ExitCode,Submit,Start,End,Elapsed,Timelimit,NNodes,"
    "Restarts,ReqTRES,AllocTRES"
)


def recognise(content: Content) -> bool:
    """A JSON document of Slurm's accounting, or a header with its columns."""
    if isinstance(content, Document):
        return sacct_json.recognise(content)
    return sacct_text.recognise(content)


def read(content: Content) -> Reading:
    """Accounts become tenants; what did not end, never started or asked for no GPU is left out."""
    reading = sacct_json.read(content) if isinstance(content, Document) else sacct_text.read(content)
    reading.drop_without_gpus()
    reading.drop(pl.col("status").str.contains(_OPEN), "not finished when the log was written")
    reading.drop(
        ~pl.col("started") & (pl.col("duration_seconds").fill_null(0) == 0),
        "never started (cancelled while waiting)",
    )
    reading.drop(pl.col("duration_seconds").is_null(), "no elapsed time")
    reading.drop(
        pl.col("job_id").is_duplicated() & ~pl.col("job_id").is_last_distinct(),
        "requeued: the last run counts",
    )
    gpu_type = pl.col("gpu_type")
    said = [pl.when(pl.col(name) > 0).then(name) for name in ("cpus", "memory_gb")]
    constraint = pl.when(gpu_type != "").then(pl.lit("gpu_type=") + gpu_type)
    # A log may say that a job started a second before it was submitted, and ended before it started.
    submit, start, end = (pl.col(f"{name}_seconds") for name in ("submit", "start", "end"))
    moments = [
        pl.when(start.is_not_null()).then(pl.max_horizontal(start, submit)).alias("start_seconds"),
        pl.when(start.is_not_null() & end.is_not_null())
        .then(pl.max_horizontal(start, submit, end))
        .alias("end_seconds"),
    ]
    nodes = pl.when((pl.col("nodes") > 0) & (pl.col("nodes") <= pl.col("gpus"))).then("nodes")
    reading.frame = reading.frame.with_columns(*said, *moments, nodes, constraint.alias("constraint")).drop(
        "gpu_type", "started"
    )
    reading.clamp_durations()
    reading.clamp_limits()
    reading.start_at_zero()
    return reading
