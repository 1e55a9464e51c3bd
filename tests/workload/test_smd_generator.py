"""SMD's generator: its classes and ranges, and jobs that can be run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest, kstest

from muster.problems import InputError
from muster.workload.generators.smd import SLOT_SECONDS, generate
from muster.workload.trace import read_trace, write_trace

LEAST_P = 0.01


def test_classes_and_utilities_are_the_paper_s() -> None:
    jobs = generate(4000, seed=1).jobs
    urgency = jobs["utility_urgency_per_hour"].to_numpy()
    classes = {
        0.10: urgency == 0,
        0.55: (urgency >= 0.01) & (urgency <= 1),
        0.35: (urgency >= 4) & (urgency <= 6),
    }
    for share, these in classes.items():
        assert binomtest(int(these.sum()), 4000, share).pvalue > LEAST_P
    assert sum(int(these.sum()) for these in classes.values()) == 4000
    for low, high, drawn in (
        (0.01, 1, urgency[classes[0.55]]),
        (4, 6, urgency[classes[0.35]]),
        (1, 100, jobs["utility_priority"].to_numpy()),
        (1, 15, jobs["utility_target_seconds"].to_numpy() / SLOT_SECONDS),
    ):
        assert kstest((drawn - low) / (high - low), "uniform").pvalue > LEAST_P


def test_the_limit_holds_as_many_servers_as_workers() -> None:
    jobs = generate(500, seed=2).jobs
    pairs = jobs["gpus"] // jobs["worker_gpus"]
    assert pairs.is_between(2, 8).all()
    for name in ("cpus", "memory_gb"):
        each = jobs[f"worker_{name}"] + jobs[f"server_{name}"]
        assert np.allclose(jobs[name].to_numpy(), (each * pairs).to_numpy(), atol=0.06)
    assert (jobs["max_workers"] == 2 * pairs).all()


def test_arrivals_leave_the_jobs_as_they_are() -> None:
    batch, poisson = generate(1000, seed=4).jobs, generate(1000, 10.0, seed=4).jobs
    assert batch.drop("submit_seconds").equals(poisson.drop("submit_seconds"))
    assert (batch["submit_seconds"] == 0).all()
    gaps = poisson["submit_seconds"].diff().drop_nulls().to_numpy()
    assert kstest(gaps, "expon", args=(0, 360.0)).pvalue > LEAST_P


def test_rings_have_no_servers() -> None:
    jobs = generate(1000, ring=0.4, seed=4).jobs
    assert binomtest(int((jobs["sync"] == "ring").sum()), 1000, 0.4).pvalue > LEAST_P
    assert jobs.filter(pl.col("sync") == "ring")["servers"].is_null().all()


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = generate(50, 5.0, ring=0.5, seed=5)
    write_trace(made, tmp_path / "ps.csv")
    assert read_trace(tmp_path / "ps.csv").jobs.equals(made.jobs)
    assert generate(50, 5.0, ring=0.5, seed=5).jobs.equals(made.jobs)


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="--jobs"):
        generate(0)
    with pytest.raises(InputError, match="--per-hour"):
        generate(10, 0.0)
