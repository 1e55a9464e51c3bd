"""The Optimus loss curve: known curves are found again, and a job that does not learn is refused."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from muster.problems import InputError
from muster.speed.parameter_server.loss_curve import (
    _weighted_lines,
    fit_loss_curve,
    without_outliers,
)


@settings(max_examples=60, deadline=None)
@given(
    slope=st.floats(1e-3, 1),
    offset=st.floats(0.1, 1),
    floor=st.floats(0, 2),
    unit=st.sampled_from([1e-3, 1.0, 50.0]),
)
def test_a_known_curve_predicts_its_own_target(
    slope: float, offset: float, floor: float, unit: float
) -> None:
    steps = np.arange(0, 200, 5)

    def truth(k: float) -> float:
        return unit * (1 / (slope * k + offset) + floor)

    curve = fit_loss_curve(steps, [truth(float(k)) for k in steps])
    target = truth(400)
    assert curve.remaining_steps(target, 195) == pytest.approx(205, abs=8)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.9]))
def test_the_lines_are_non_negative_least_squares(seed: int, shift: float) -> None:
    """Losses without a trend, and losses of 1 / (k - shift), whose best free line starts below 0."""
    rng = np.random.default_rng(seed)
    k = np.sort(rng.choice(1000, 12, replace=False) + 1).astype(float)
    y = rng.uniform(0.2, 1, 12)
    if shift:
        y = 0.15 + (k[0] * (1 - shift) / (k - shift * k[0])) * rng.uniform(0.9, 1, 12)
    floors = np.array([0.0, 0.1])
    slopes, offsets = _weighted_lines(k, y, floors)
    for floor, slope, offset in zip(floors, slopes, offsets, strict=True):
        weight = (y - floor) ** 2
        matrix = np.column_stack([weight * k, weight])
        oracle, _ = nnls(matrix, y - floor)
        ours = np.array([slope, offset])
        assert np.linalg.norm(matrix @ ours - (y - floor)) <= np.linalg.norm(
            matrix @ oracle - (y - floor)
        ) * (1 + 1e-9)
        assert (ours >= 0).all()


def test_outliers_become_the_mean_of_their_neighbours() -> None:
    losses = 1 / (0.1 * np.arange(20) + 0.2)
    spoiled = losses.copy()
    spoiled[7], spoiled[12] = 50.0, 0.001
    smoothed = without_outliers(spoiled)
    assert smoothed[7] == pytest.approx((losses[6] + losses[8]) / 2)
    assert smoothed[12] == pytest.approx((losses[11] + losses[13]) / 2)
    np.testing.assert_array_equal(without_outliers(losses), losses)


def test_a_target_already_reached_needs_no_step() -> None:
    curve = fit_loss_curve(range(10), [1 / (0.5 * k + 1) for k in range(10)])
    assert curve.remaining_steps(0.9, 9) == 0
    assert curve.remaining_steps(1 / 6, 9) == 1


@pytest.mark.parametrize(
    ("steps", "losses", "message"),
    [
        ([0, 1, 2, 3], [1.0, 1.0, 1.0, 1.0], "do not fall"),
        ([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0], "do not fall"),
        ([0, 1], [1.0, 0.5], "at least three"),
        ([0, 0, 1], [3.0, 2.0, 1.0], "must increase"),
        ([0, 1, 2], [3.0, float("nan"), -1.0], "losses: found nan.*\n.*found -1.0"),
    ],
)
def test_curves_that_say_nothing_are_refused(steps: list[int], losses: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_loss_curve(steps, losses)


def test_a_target_below_the_floor_is_refused() -> None:
    curve = fit_loss_curve(range(50), [1 / (0.5 * k + 1) + 0.3 for k in range(50)])
    with pytest.raises(InputError, match=r"--target-loss: found 0\.25; .* flattens at 0\.[23]"):
        curve.remaining_steps(0.25, 50)


def test_measured_losses_are_extrapolated(reference: Path) -> None:
    """Detection losses of six runs: fitted to the first half, they predict the level of the last tenth."""
    wrong = []
    for batch in (8, 16, 32, 64, 128, 256):
        path = reference / "data" / "profiles" / "pollux" / "yolov3" / f"validation-{batch}.csv"
        with path.open() as file:
            losses = np.array([float(row["metric"]) for row in csv.DictReader(file)])
        half = losses.size // 2
        curve = fit_loss_curve(np.arange(half), losses[:half])
        end = np.arange(losses.size * 9 // 10, losses.size)
        wrong.append(abs(curve.loss(end).mean() / losses[end].mean() - 1))
    assert np.median(wrong) < 0.1
