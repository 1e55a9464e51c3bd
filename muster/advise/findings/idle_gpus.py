"""GPUs that jobs hold and do not use."""

from __future__ import annotations

import polars as pl

from muster.advise.finding import Finding, Saving, not_judged, nothing
from muster.advise.site import Site
from muster.formatting import counted, percent, three_figures

NAME = "idle-gpus"
_LEAST_HOURS = 0.1
_NO_WORK_CORES = 0.01
"""A process that uses less of a core than this launches no kernels to speak of."""
_LARGE = 0.1
_LISTED = 10


def judge(site: Site) -> Finding:
    """Sum the GPU-hours that jobs held without using them, by what their steps recorded."""
    ran = site.ran.filter(pl.col("hours") >= _LEAST_HOURS)
    if "gpus_used_low" in ran.columns and ran["gpus_used_low"].is_not_null().any():
        jobs = ran.filter(pl.col("gpus_used_low").is_not_null()).with_columns(
            ((pl.col("gpus") - pl.col("gpus_used_high")) * pl.col("hours")).alias("low"),
            ((pl.col("gpus") - pl.col("gpus_used_low")) * pl.col("hours")).alias("high"),
        )
        how = (
            f"{jobs.height:,} of {ran.height:,} jobs of 6 minutes or more say how busy their GPUs were. Slurm adds "
            "over tasks, so the share is a range: one GPU of a job was busy, or all of them."
        )
    elif "cpus_used" in ran.columns and ran["cpus_used"].is_not_null().any():
        known = ran.filter(pl.col("cpus_used").is_not_null())
        idle = pl.when(pl.col("cpus_used") < _NO_WORK_CORES).then(pl.col("gpu_hours")).otherwise(0.0)
        jobs = known.with_columns(pl.lit(0.0).alias("low"), idle.alias("high"))
        how = (
            f"No utilisation of GPUs is recorded. {counted(jobs.filter(pl.col('high') > 0).height, 'job')} of "
            f"{jobs.height:,} used less than {_NO_WORK_CORES:g} of a CPU core, so their GPUs had next to no work."
        )
    else:
        return not_judged(NAME, "use of GPUs or CPUs (TRESUsageInAve with gres/gpuutil, TotalCPU, jobstats)")
    held = float(jobs["gpu_hours"].sum())
    low, high = float(jobs["low"].sum()), float(jobs["high"].sum())
    if not held or high / held < _LARGE:
        return nothing(NAME, "The GPUs that jobs hold are busy", jobs.height, how)
    return Finding(
        NAME,
        f"Of the GPU-hours that jobs held, {percent(low / held)} to {percent(high / held)} were idle",
        jobs=jobs.height,
        evidence=[how, f"They held {three_figures(held)} GPU-hours."],
        saving=Saving(low, high, "GPU-hours"),
        what_to_do=[
            "Ask the owners of the table what these jobs wait for: input, a shell that was left open, too many GPUs.",
            "End interactive jobs that are idle, and share GPUs (MIG, shards) among jobs that use little of one.",
        ],
        columns=("user", "jobs", "GPU-hours held", "idle at least", "idle at most"),
        rows=_by_user(jobs),
    )


def _by_user(jobs: pl.DataFrame) -> list[tuple[str, ...]]:
    table = (
        jobs.group_by("user")
        .agg(pl.len(), pl.col("gpu_hours").sum(), pl.col("low").sum(), pl.col("high").sum())
        .sort(-pl.col("high"), "user")
        .head(_LISTED)
    )
    return [
        (user or "no name", f"{count:,}", three_figures(held), percent(low / held), percent(high / held))
        for user, count, held, low, high in table.iter_rows()
    ]
