"""What jobs really used, from Slurm's accounting of their steps: CPUs, memory, GPUs.

Slurm samples each task. `TotalCPU` and `TRESUsageInTot` add over tasks; `MaxRSS` is the largest task, so it stands for
the whole only if nothing else is recorded. A comment that Princeton's jobstats wrote (`JS1:`) has all of them by node.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
from collections.abc import Mapping

import polars as pl

from muster.workload.traces.columns import USAGE
from muster.workload.traces.times import clock_seconds

GB_PER_UNIT: Mapping[str, float] = {
    "": 2**20 / 1e9,
    "K": 2**10 / 1e9,
    "M": 2**20 / 1e9,
    "G": 2**30 / 1e9,
    "T": 2**40 / 1e9,
    "P": 2**50 / 1e9,
}
"""Slurm counts in 1024: `64G` is 64 GiB."""
_JOBSTATS = "JS1:"


def usage(table: pl.DataFrame, gpus: pl.Series, seconds: pl.Series) -> pl.DataFrame:
    """What the job of each row used, beside its GPUs and run time; null where nothing is recorded.

    `table` has the rows of `sacct -P`, jobs and steps, its columns in lower case.
    """
    here = [name for name in _TEXTS if name in table.columns]
    texts = table.select(pl.col("jobid").cast(pl.String), *(pl.col(name).cast(pl.String) for name in here))
    texts = texts.with_columns(pl.lit(None, pl.String).alias(name) for name in _TEXTS if name not in here)
    rows = texts.with_columns(
        clock_seconds(texts["totalcpu"]).alias("total_cpu"),
        clock_seconds(texts["tresusageintot"].str.extract(r"(?:^|,)cpu=([\d:.-]+)")).alias("step_cpu"),
        _gb(pl.col("tresusageintot").str.extract_groups(r"(?:^|,)mem=([\d.]+)([KMGTP]?)"), "").alias("total"),
        _gb(pl.col("maxrss").str.extract_groups(r"^([\d.]+)([KMGTP]?)"), "K").alias("largest"),
        pl.col("tresusageinave").str.extract(r"gres/gpuutil=([\d.]+)").cast(pl.Float64).alias("utilised"),
        pl.col("jobid").str.split(".").list.first().alias("job"),
        pl.col("jobid").str.contains(".", literal=True).alias("step"),
    )
    # A requeued job has a row for each run, each with its steps after it.
    rows = rows.with_columns((~pl.col("step")).cum_sum().over("job").clip(1).alias("run"))
    of_steps = rows.group_by("job", "run").agg(
        pl.col("total_cpu").filter(~pl.col("step")).max(),
        pl.col("step_cpu").drop_nulls().sum().alias("step_cpu"),
        pl.col("step_cpu").is_not_null().any().alias("counted"),
        pl.coalesce("total", "largest").max().alias("memory"),
        pl.col("utilised").max(),
    )
    frame = rows.select("job", "run", "admincomment", "comment").with_columns(
        gpus.alias("gpus"), seconds.alias("seconds")
    )
    frame = frame.join(of_steps, on=["job", "run"], how="left", maintain_order="left")
    cpu = pl.coalesce(
        pl.when(pl.col("total_cpu") > 0).then("total_cpu"), pl.when("counted").then("step_cpu"), "total_cpu"
    )
    busy = pl.col("utilised") / 100
    known = pl.when(pl.col("utilised").is_not_null())
    found = frame.select(
        pl.when(pl.col("seconds") > 0).then(cpu / pl.col("seconds")).alias("cpus_used"),
        pl.col("memory").alias("memory_gb_used"),
        known.then(pl.min_horizontal(busy, pl.col("gpus"))).alias("gpus_used_low"),
        known.then(pl.min_horizontal(busy * pl.col("gpus"), pl.col("gpus"))).alias("gpus_used_high"),
    )
    said = pl.DataFrame(
        [
            _of_jobstats(admin) or _of_jobstats(own) or dict.fromkeys(USAGE)
            for admin, own in frame.select("admincomment", "comment").iter_rows()
        ],
        schema=dict.fromkeys(USAGE, pl.Float64),
    )
    return pl.DataFrame([said[name].fill_null(found[name]) for name in USAGE])


_TEXTS = ("totalcpu", "tresusageintot", "tresusageinave", "maxrss", "admincomment", "comment")


def _gb(parts: pl.Expr, unit: str) -> pl.Expr:
    """GB of a number and its unit; `unit` stands where none is written."""
    amount, written = parts.struct.field("1").cast(pl.Float64, strict=False), parts.struct.field("2")
    named = pl.when(written == "").then(pl.lit(unit)).otherwise(written)
    bytes_each = {**GB_PER_UNIT, "": 1e-9}
    return amount * named.replace_strict(bytes_each, default=None, return_dtype=pl.Float64)


def _of_jobstats(comment: str | None) -> dict[str, float | None] | None:
    """The figures of a comment of jobstats; None if it is none, or cannot be read."""
    if not comment or not comment.startswith(_JOBSTATS):
        return None
    try:
        content = json.loads(gzip.decompress(base64.b64decode(comment.removeprefix(_JOBSTATS))))
        nodes, seconds = list(content["nodes"].values()), float(content["total_time"])
        busy = [share / 100 for node in nodes for share in node.get("gpu_utilization", {}).values()]
        return {
            "cpus_used": sum(float(node["total_time"]) for node in nodes) / seconds,
            "memory_gb_used": sum(float(node["used_memory"]) for node in nodes) / 1e9,
            "gpus_used_low": sum(busy) if busy else None,
            "gpus_used_high": sum(busy) if busy else None,
        }
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        OSError,
        EOFError,
        binascii.Error,
        ZeroDivisionError,
    ):
        return None
