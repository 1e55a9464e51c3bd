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
    "--format=JobID,User,Account,State,Submit,Start,End,Elapsed,ReqTRES,AllocTRES"
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
        pl.col("start").is_null() & (pl.col("duration_seconds").fill_null(0) == 0),
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
    reading.frame = reading.frame.with_columns(*said, constraint.alias("constraint")).drop(
        "start", "gpu_type"
    )
    reading.clamp_durations()
    reading.start_at_zero()
    return reading
