"""How many steps are left until a loss is reached (Optimus §3.1).

The curve is loss = 1 / (b0 k + b1) + b2 after k steps, with b0, b1, b2 from 0 on.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from muster.files import read_text
from muster.problems import InputError, Problem
from muster.speed.parameter_server.layers import FloatArray

NEIGHBOURS = 5
"""How many losses before and after say whether one is an outlier (Optimus)."""
FLOORS = 200
"""How many floors b2 a scan tries; two scans, the second around the best of the first."""


@dataclass(frozen=True)
class LossCurve:
    """A fitted curve, in the unit of the measured losses."""

    slope: float
    offset: float
    floor: float
    largest: float
    """The loss that counts as 1 in slope, offset and floor."""

    def loss(self, steps: ArrayLike) -> FloatArray:
        """The loss after so many steps."""
        k = np.asarray(steps, dtype=np.float64)
        return np.asarray(self.largest * (1 / (self.slope * k + self.offset) + self.floor), dtype=np.float64)

    def remaining_steps(self, target_loss: float, steps_done: int) -> int:
        """Whole steps from now on until the target; a target that the curve never reaches is refused."""
        if self.loss(steps_done) <= target_loss:
            return 0
        lowest = self.floor * self.largest
        if not target_loss > lowest or self.slope == 0:
            reached = lowest if self.slope > 0 else float(self.loss(0))
            what = f"the losses so far do not lead there: their curve flattens at {reached:.4g}"
            raise InputError(Problem("--target-loss", what, found=target_loss))
        steps = (1 / (target_loss / self.largest - self.floor) - self.offset) / self.slope
        return math.ceil(steps - 1e-9 * steps) - steps_done


def read_losses(path: Path) -> tuple[FloatArray, FloatArray]:
    """Steps and losses of a CSV file with these two columns."""
    rows, problems = [], []
    reader = csv.DictReader(io.StringIO(read_text(path)))
    if not {"step", "loss"} <= set(reader.fieldnames or ()):
        raise InputError(Problem(str(path), "allowed: the columns step and loss", 1))
    for row in reader:
        try:
            rows.append((float(row["step"]), float(row["loss"])))
        except (TypeError, ValueError):
            what = "allowed: two numbers: a step and its loss"
            problems.append(Problem(str(path), what, reader.line_num, found=f"{row['step']},{row['loss']}"))
    if problems:
        raise InputError(*problems)
    steps, losses = np.array(rows, dtype=np.float64).reshape(-1, 2).T
    return steps, losses


def fit_loss_curve(steps: ArrayLike, losses: ArrayLike) -> LossCurve:
    """The curve through measured losses: outliers smoothed, divided by the largest, the best floor taken."""
    k, measured = np.asarray(steps, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    _check(k, measured)
    smooth = without_outliers(measured)
    largest = float(smooth.max())
    y = smooth / largest
    lowest = float(y.min())
    # A floor at the lowest loss itself would need infinitely many steps there.
    floors = np.linspace(0.0, lowest, FLOORS, endpoint=False)
    best = _best_floor(k, y, floors)
    around = lowest / FLOORS
    best = _best_floor(
        k, y, np.linspace(max(0.0, best - around), min(best + around, lowest), FLOORS, endpoint=False)
    )
    slope, offset = (float(b[0]) for b in _weighted_lines(k, y, np.array([best])))
    return LossCurve(slope, offset, best, largest)


def without_outliers(losses: FloatArray) -> FloatArray:
    """A loss below all of the next five or above all of the last five becomes the mean of its neighbours."""
    smoothed = losses.copy()
    for i in range(1, losses.size - 1):
        before, after = losses[max(0, i - NEIGHBOURS) : i], losses[i + 1 : i + 1 + NEIGHBOURS]
        if losses[i] < after.min() or losses[i] > before.max():
            smoothed[i] = (losses[i - 1] + losses[i + 1]) / 2
    return smoothed


def _check(k: FloatArray, losses: FloatArray) -> None:
    problems = []
    if k.size != losses.size or k.size < 3:
        problems.append(
            Problem("--losses", "allowed: at least three steps, each with its loss", found=k.size)
        )
    for name, values in (("steps", k), ("losses", losses)):
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= (0 if name == "steps" else 1e-300))))
        problems += [
            Problem("--losses", "allowed: a finite number, for losses above 0", None, name, float(values[i]))
            for i in bad
        ]
    if not problems and np.any(np.diff(k) <= 0):
        problems.append(Problem("--losses", "the steps must increase", column="steps"))
    if not problems and not losses[-(k.size // 2) :].mean() < losses[: k.size // 2].mean():
        problems.append(
            Problem("--losses", "the losses do not fall: a job that does not learn converges to no target")
        )
    if problems:
        raise InputError(*problems)


def _best_floor(k: FloatArray, y: FloatArray, floors: FloatArray) -> float:
    """The floor whose curve is nearest to the losses, in squares."""
    slope, offset = _weighted_lines(k, y, floors)
    line = slope[:, None] * k + offset[:, None]
    # Both coefficients 0 is an infinite loss: never the nearest.
    with np.errstate(divide="ignore"):
        error = ((1 / line + floors[:, None] - y) ** 2).sum(axis=1)
    return float(floors[error.argmin()])


def _weighted_lines(k: FloatArray, y: FloatArray, floors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each floor the line b0 k + b1 ~ 1 / (y - floor), b >= 0, each equation weighted by (y - floor)^2.

    Non-negative least squares in two unknowns: the free solution if both are from 0 on, else the better edge.
    """
    unit = k.max()
    above = y - floors[:, None]
    weight = above**2
    first, second, right = weight * (k / unit), weight, above
    aa, ab, bb = (first**2).sum(1), (first * second).sum(1), (second**2).sum(1)
    ar, br = (first * right).sum(1), (second * right).sum(1)
    determinant = aa * bb - ab**2
    with np.errstate(divide="ignore", invalid="ignore"):
        slope, offset = (ar * bb - br * ab) / determinant, (br * aa - ar * ab) / determinant
        only_slope, only_offset = ar / aa, br / bb
    free = (determinant > 0) & (slope >= 0) & (offset >= 0)
    # Each edge lowers the squares by (its right side)^2 / (its square).
    slope_is_better = ar**2 / aa > br**2 / bb
    slope = np.where(free, slope, np.where(slope_is_better, only_slope, 0.0))
    offset = np.where(free, offset, np.where(slope_is_better, 0.0, only_offset))
    return slope / unit, offset
