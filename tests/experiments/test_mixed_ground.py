"""The mixed ground has jobs of every kind."""

from __future__ import annotations

import polars as pl

from experiments.joint.mixed import CLASSES, JOBS, trace


def test_every_fifth_job_or_so_is_of_each_kind() -> None:
    jobs = trace(1).jobs
    assert len(jobs) == JOBS
    counts = [jobs.filter(pl.col("sync") == "ps").height]
    counts += [
        jobs.filter((pl.col("sync") != "ps") & pl.col("model").is_in(names)).height
        for names in CLASSES.values()
        if names
    ]
    assert min(counts) >= JOBS / 5 / 2
    assert jobs.filter(pl.col("max_gpus") > pl.col("min_gpus")).height > 0


def test_without_elastic_jobs_no_job_changes_size() -> None:
    jobs = trace(1, elastic=False).jobs.filter(pl.col("sync") != "ps")
    assert jobs.filter(pl.col("max_gpus") != pl.col("min_gpus")).is_empty()
    assert (
        jobs["iterations"].to_list() == trace(1).jobs.filter(pl.col("sync") != "ps")["iterations"].to_list()
    )
