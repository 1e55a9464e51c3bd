"""A rate from windows of (steps, seconds): its mean, its spread, and whether it is known well enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Precision:
    """When a point has been measured enough."""

    error: float = 0.02
    """Half width of the 95 % confidence interval, relative to the mean."""
    least_windows: int = 5
    most_windows: int = 12


@dataclass(frozen=True)
class Rate:
    """Steps a second at one point."""

    steps_per_s: float
    error: float
    """Half width of its 95 % confidence interval, relative."""
    spread: float
    """Standard deviation between windows, relative."""
    windows: int
    """That count; those of the warm-up were dropped before."""
    sure: bool
    """Whether the precision asked for was reached."""


def rate_of(windows: Sequence[tuple[int, float]], precision: Precision) -> Rate | None:
    """The rate over windows of (steps, seconds); None while there are too few to say anything.

    Leading windows are dropped as long as that makes the rest surer (MSER, White 1997), half of them at
    most: batches prepared under the grant before are still waiting when a new one begins.
    """
    if len(windows) < precision.least_windows:
        return None
    steps, seconds = np.array(windows, dtype=float).T
    most_dropped = min(len(windows) // 2, len(windows) - precision.least_windows)
    errors = [_standard_error(steps[drop:], seconds[drop:]) for drop in range(most_dropped + 1)]
    drop = int(np.argmin(errors))
    steps, seconds = steps[drop:], seconds[drop:]
    count = len(steps)
    mean = steps.sum() / seconds.sum()
    error = float(stdtrit(count - 1, (1 + _CONFIDENCE) / 2)) * errors[drop] / mean
    spread = float(np.std(steps / seconds, ddof=1)) / mean
    return Rate(float(mean), float(error), spread, count, bool(error <= precision.error))


def _standard_error(steps: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64]) -> float:
    """Of the ratio of two sums (Cochran, Sampling Techniques, ratio estimate), finite for two windows and more."""
    count = len(steps)
    off = steps - steps.sum() / seconds.sum() * seconds
    return float(np.sqrt(count / (count - 1) * (off @ off)) / seconds.sum())
