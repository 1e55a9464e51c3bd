"""The analytic input stage: its parameters recovered, the compiled stage matched, real fits kept honest."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, differential_evolution

from experiments.fitting.input_analytic import (
    AnalyticFit,
    AnalyticInput,
    MatrixAxes,
    analytic_model,
    fit_analytic,
    measured_points,
)
from experiments.fitting.input_fit_table import MEMORY_GB_PER_S, fit_shipped
from muster.problems import InputError
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import input_stage_seconds
from muster.workload.models import Dataset, synergy_models

CPUS = np.array([1, 2, 3, 4, 6, 8, 12, 24], dtype=float)
MEMORY = np.array([20, 60, 120, 180, 250], dtype=float)
STORAGE = 0.0625
HITS = 8.0


@st.composite
def forms(draw: st.DrawFn) -> AnalyticInput:
    """Parameters of which every one shows at some of the points (CPUS, MEMORY)."""
    compute = draw(st.floats(0.05, 5))
    # Preparing is the limit at one core, computing at 24; reading at the two smallest memories.
    prepare = compute * draw(st.floats(1.5, 20))
    size = draw(st.floats(70, 230))
    at_60 = 1 - 60 / size + 60 / size * STORAGE / HITS
    uncached = compute * draw(st.floats(1.05, 3)) / at_60
    batch = draw(st.integers(1, 1024))
    return AnalyticInput(
        batch=batch,
        compute_samples_per_s=batch / compute,
        cpu_seconds_per_sample=prepare / batch,
        dataset=Dataset(size, uncached * STORAGE / batch, STORAGE, HITS),
    )


def points_of(form: AnalyticInput) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    cpus, memory = (axis.ravel() for axis in np.meshgrid(CPUS, MEMORY))
    return np.column_stack([cpus, memory, form.iteration_seconds(cpus, memory, STORAGE)])


def fit(form: AnalyticInput, points: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> AnalyticFit:
    return fit_analytic(points, batch=form.batch, storage_gb_per_s=STORAGE, memory_gb_per_s=HITS)


def assert_same_parameters(found: AnalyticInput, known: AnalyticInput, relative: float) -> None:
    assert found.compute_samples_per_s == pytest.approx(known.compute_samples_per_s, rel=relative)
    assert found.cpu_seconds_per_sample == pytest.approx(known.cpu_seconds_per_sample, rel=relative)
    assert found.dataset is not None
    assert known.dataset is not None
    assert dataclasses.astuple(found.dataset) == pytest.approx(
        dataclasses.astuple(known.dataset), rel=relative
    )


@settings(deadline=None, max_examples=25)
@given(forms())
def test_points_of_known_parameters_give_them_back(form: AnalyticInput) -> None:
    found = fit(form, points_of(form))
    assert_same_parameters(found.form, form, 1e-5)
    assert found.rms_log_error < 1e-6
    assert found.worst_ratio < 1 + 1e-5
    assert found.seen == ("read", "prepare", "compute")


@settings(deadline=None, max_examples=20)
@given(forms(), st.integers(0, 2**32 - 1))
def test_a_hundredth_of_noise_moves_the_curve_by_hundredths(form: AnalyticInput, seed: int) -> None:
    points = points_of(form)
    noise = np.random.default_rng(seed).normal(0, 0.01, len(points))
    points[:, 2] *= np.exp(noise)
    found = fit(form, points)
    # Least squares: the true parameters miss the points by the noise, the fitted ones by no more.
    assert found.rms_log_error <= np.sqrt(np.mean(noise**2)) * 1.001
    np.testing.assert_allclose(points_of(found.form)[:, 2], points_of(form)[:, 2], rtol=0.05)


@pytest.mark.parametrize("seed", [5, 16])
def test_noise_does_not_hold_the_search_in_a_local_optimum(seed: int) -> None:
    """Two draws of noise with which a search from fewer starts ends worse than the true parameters."""
    form = AnalyticInput(64, 64.0, 13 / 64, Dataset(143, 7 * STORAGE / 64, STORAGE, HITS))
    points = points_of(form)
    noise = np.random.default_rng(seed).normal(0, 0.05, len(points))
    points[:, 2] *= np.exp(noise)
    assert fit(form, points).rms_log_error <= np.sqrt(np.mean(noise**2))


@settings(deadline=None, max_examples=40)
@given(forms(), st.floats(1, 40), st.floats(0, 400), st.floats(0.01, 2))
def test_compiled_stage_is_the_form_at_any_storage(
    form: AnalyticInput, cpus: float, memory: float, storage: float
) -> None:
    """With the kinks of the form among its points nothing is lost between them, whatever the storage."""
    kink = form.batch * form.cpu_seconds_per_sample / form.compute_seconds
    assert form.dataset is not None
    model = analytic_model(
        form,
        MatrixAxes(sorted({*CPUS, kink}), sorted({*MEMORY, form.dataset.size_gb}), reference=(3.0, 60.0)),
        storage_gb_per_s=STORAGE,
        name="made",
        family="image",
        source="a test",
        licence="none",
    )
    table = model_table([model])
    stage = max(input_stage_seconds(table, 0, cpus, memory, storage), float(table["compute_seconds"][0]))
    assert stage == pytest.approx(float(form.iteration_seconds(cpus, memory, storage)), rel=1e-9)


def test_without_any_wait_for_reading_nothing_is_said_of_it() -> None:
    found = fit_shipped(synergy_models()["gnmt"])
    assert found.form.dataset is None
    assert found.seen == ("compute",)
    # The most cautious CPU cost that agrees: one core, the least measured, just keeps up.
    assert found.form.cpu_seconds_per_sample == pytest.approx(0.12 / 128)
    assert found.form.compute_samples_per_s == pytest.approx(128 / 0.12)
    assert found.worst_ratio == pytest.approx(1)


@pytest.mark.parametrize("name", sorted(synergy_models()))
def test_synergys_models_fit_as_well_as_the_documentation_says(name: str) -> None:
    found = fit_shipped(synergy_models()[name])
    assert found.rms_log_error < 0.09
    assert found.worst_ratio < 1.31
    points = measured_points(synergy_models()[name])
    again = found.form.iteration_seconds(points[:, 0], points[:, 1], STORAGE)
    log_error = np.log(again / points[:, 2])
    assert np.sqrt(np.mean(log_error**2)) == pytest.approx(found.rms_log_error, abs=1e-9)
    assert np.exp(np.abs(log_error).max()) == pytest.approx(found.worst_ratio, rel=1e-9)


@pytest.mark.parametrize("name", ["alexnet", "resnet18", "resnet50", "m5", "deepspeech"])
def test_a_fit_is_the_best_there_is(name: str) -> None:
    """The error has local optima; a global search over a box around the fit must find nothing better."""
    entry = synergy_models()[name]
    points = measured_points(entry)
    found = fit_shipped(entry)
    dataset = found.form.dataset
    assert dataset is not None
    uncached = entry.batch * dataset.sample_gb / dataset.storage_gb_per_s
    prepare = entry.batch * found.form.cpu_seconds_per_sample
    centre = np.log([found.form.compute_seconds, prepare, uncached, dataset.size_gb])

    def mean_square(logs: Any, /) -> Any:
        compute, prepare, uncached, size = np.exp(logs)[:, :, None]
        cached = np.minimum(1, points[:, 1] / size)
        read = uncached * (1 - cached + cached * STORAGE / MEMORY_GB_PER_S)
        seconds = np.maximum(np.maximum(compute, prepare / points[:, 0]), read)
        return np.mean(np.log(seconds / points[:, 2]) ** 2, axis=1)

    box = Bounds(centre - 0.7, centre + 0.7)
    searched = differential_evolution(
        mean_square, box, rng=np.random.default_rng(7), vectorized=True, updating="deferred", tol=1e-8
    )
    assert mean_square(centre[:, None])[0] == pytest.approx(found.rms_log_error**2, rel=1e-6)
    assert found.rms_log_error <= np.sqrt(searched.fun) * 1.001


def test_nothing_is_fitted_to_unusable_points() -> None:
    points = np.array([[1, 20, 0.5], [2, 20, np.nan], [0, 20, 0.1]])
    with pytest.raises(InputError) as refused:
        fit_analytic(points, batch=1, storage_gb_per_s=1, memory_gb_per_s=10)
    assert [problem.row for problem in refused.value.problems] == [2, 3]
    with pytest.raises(InputError, match="at least one"):
        fit_analytic(np.empty((0, 3)), batch=1, storage_gb_per_s=1, memory_gb_per_s=10)
