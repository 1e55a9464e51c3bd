"""Compute by the samples of a worker, measured on real jobs and as it stands in the model file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from muster.profiling.compute import ComputeProfile, fit_compute, fit_of, measure_compute
from muster.profiling.job import JobToProfile, running
from muster.profiling.rates import Precision

from . import shared_job
from .test_real_jobs import silent

QUICK = Precision(error=0.5, least_windows=2, most_windows=4)
TIMES = st.floats(1e-4, 100)


def compute_of(*arguments: object, workers: tuple[int, ...] = (1, 3, 4)) -> ComputeProfile:
    job = JobToProfile([sys.executable, str(Path(shared_job.__file__)), *map(str, arguments)])
    with running(job, silent) as run:
        compute = measure_compute(run, 1.0, QUICK, workers)
    assert compute is not None
    return compute


def test_a_real_job_has_the_compute_that_it_was_given() -> None:
    compute = compute_of("elastic")
    assert (compute.samples, compute.passes, compute.compared, compute.failed) == (48, 1, 16, "")
    assert list(compute.rates) == [12, 16, 48]
    fit = fit_of(compute)
    assert fit is not None
    line = fit.line
    # Without the batch's preparation, and with what others on this machine take.
    assert 0.95 < line.per_sample / shared_job.SAMPLE_CPU_SECONDS < 1.4
    assert 0.8 < line.fixed / shared_job.FIXED_CPU_SECONDS < 1.8


def test_a_script_that_is_not_elastic_has_one_point() -> None:
    compute = compute_of()
    assert (compute.elastic, [*compute.rates], compute.compared) == (False, [0], None)
    assert fit_of(compute) is None
    expected = shared_job.FIXED_CPU_SECONDS + shared_job.BATCH * shared_job.SAMPLE_CPU_SECONDS
    assert 0.9 < 1 / (compute.whole.steps_per_s * expected) < 1.4


def test_a_share_with_which_the_job_fails_ends_the_points() -> None:
    compute = compute_of("elastic", "fails-below", 20, workers=(1, 2, 4))
    assert list(compute.rates) == [24, 48]
    assert compute.failed.startswith("with 12 of 48 samples the job ended with status 1; it said last:")


@given(
    batch=st.lists(st.integers(1, 1000), min_size=2, max_size=6, unique=True),
    seconds=st.lists(TIMES, min_size=6, max_size=6),
)
def test_the_line_is_the_best_one_without_negative_numbers(batch: list[int], seconds: list[float]) -> None:
    took = np.array(seconds[: len(batch)])
    line = fit_compute(batch, took.tolist())
    terms = np.column_stack([np.ones(len(batch)), batch]) / took[:, None]
    best, off = nnls(terms, np.ones(len(batch)))
    assert min(line.fixed, line.per_sample) >= 0
    ours = np.linalg.norm(terms @ [line.fixed, line.per_sample] - 1)
    assert ours == pytest.approx(off, rel=1e-6, abs=1e-6), best
