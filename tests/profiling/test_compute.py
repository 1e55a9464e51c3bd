"""Compute by the samples of a worker, measured on real jobs and as it stands in the model file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from muster.cli.profile_view import remarks
from muster.profiling.compute import ComputeProfile, fit_compute, fit_of, measure_compute
from muster.profiling.grid import measure_grid, predicted_of_share
from muster.profiling.job import JobToProfile, running
from muster.profiling.model import model_of, model_toml
from muster.profiling.optimistic import Profile
from muster.profiling.rates import Precision
from muster.workload.models import read_model

from . import shared_job
from .test_model import rate
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


@pytest.mark.long
def test_every_share_is_run_with_its_input() -> None:
    """Preparing a batch takes longer than any step, whatever the share; the line knows nothing of that."""
    job = JobToProfile([sys.executable, str(Path(shared_job.__file__)), "elastic"])
    compute = profiled({24: 0.044, 48: 0.068}, 48, None).compute
    grid = measure_grid(
        job, cpus=(1.0,), memory_gb=(1.0,), compute=compute, precision=QUICK, on_progress=silent
    )
    assert grid.samples == (6, 8, 12, 16, 24)
    for samples, found in zip(grid.samples, grid.share_rates[0], strict=True):
        least = shared_job.FIXED_CPU_SECONDS + samples * shared_job.SAMPLE_CPU_SECONDS
        assert 1 / found.steps_per_s > 0.95 * (least + shared_job.PREPARE_CPU_SECONDS)


def profiled(seconds: dict[int, float], samples: int, compared: int | None) -> Profile:
    rates = {size: rate(1 / took) for size, took in seconds.items()}
    compute = ComputeProfile(samples, 1, True, rates, compared, "", 60.0)
    return Profile((1.0, 2.0), {1.0: rate(5.0), 2.0: rate(10.0)}, None, True, 60.0, 0.0, True, compute)


@pytest.mark.parametrize(("batch", "fixed_samples"), [(None, 8), (480, 80)])
def test_the_file_has_the_line(batch: int | None, fixed_samples: float, tmp_path: Path) -> None:
    """The compared point took a quarter longer than the line; a batch may be stated in another unit."""
    seconds = {size: 0.02 + 0.0025 * size for size in (6, 12, 24, 48)} | {16: 0.06 * 1.25}
    model = model_of(profiled(seconds, 48, 16), name="x", family="image", batch=batch, source="a test")
    path = tmp_path / "x.toml"
    path.write_text(model_toml(model, []), encoding="utf-8")
    assert read_model(path) == model
    assert model.batch == (batch or 48)
    assert model.compute is not None
    assert model.compute.largest_batch == model.batch
    assert model.compute.fixed_samples == pytest.approx(fixed_samples)
    error = "seconds of steps of 4 numbers of samples, 6 to 48: median 0.0 %, worst 0.0 %"
    assert model.compute.error == f"{error}; of 16, which was not fitted: 20.0 %"


def test_a_job_that_waits_for_its_input_computes_for_less(tmp_path: Path) -> None:
    """Its steps take 100 ms with all CPUs, whatever the share; without their input 60 ms."""
    seconds = {24: 0.04, 48: 0.06}
    waits = profiled(seconds, 48, None)
    model = model_of(waits, name="x", family="image", batch=None, source="a test")
    assert model.compute is not None
    assert model.seconds_per_iteration == 0.1
    assert model.compute.seconds == pytest.approx(0.06)
    assert any("waits for its input with 2 cores too" in line for line in remarks(waits, ["job"]))
    path = tmp_path / "x.toml"
    path.write_text(model_toml(model, []), encoding="utf-8")
    assert read_model(path) == model
    alike = profiled({24: 0.06, 48: 0.099}, 48, None)
    found = model_of(alike, name="x", family="image", batch=None, source="a test").compute
    assert found is not None
    assert found.seconds is None


def test_a_share_is_predicted_by_what_it_waits_for() -> None:
    """One core prepares 5 batches a second, two 10; without input a batch takes 60 ms, of which 20 are fixed."""
    waits = profiled({24: 0.04, 48: 0.06}, 48, None)
    model = model_of(waits, name="x", family="image", batch=None, source="a test")
    expected = {(1.0, 0.5): 0.1, (2.0, 0.5): 0.05, (2.0, 0.125): 0.025, (1.0, 0.125): 0.025}
    for (cores, share), seconds in expected.items():
        assert 1 / predicted_of_share(model, cores, share) == pytest.approx(seconds)


def test_compute_that_does_not_fall_with_the_batch_is_all_fixed() -> None:
    seconds = {1: 0.11, 2: 0.1, 4: 0.1}
    model = model_of(profiled(seconds, 4, None), name="x", family="image", batch=None, source="a test")
    assert model.compute is not None
    assert model.compute.fixed_samples == 4000


def test_one_number_of_samples_has_no_line() -> None:
    model = model_of(profiled({4: 0.1}, 4, None), name="x", family="image", batch=None, source="a test")
    assert (model.batch, model.compute) == (4, None)
