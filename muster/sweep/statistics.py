"""Statistics over several seeds: a mean, and how far the true one may lie from it (Student's t)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.confidence import t_quantile

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    half_width: float | None
    """Of the interval that holds the true mean with 95 % confidence; None: one seed gives no interval."""
    seeds: int


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and interval: t(n - 1) times the standard deviation over the root of n."""
    sample = np.asarray(values, dtype=np.float64)
    count = len(sample)
    if count < 2:
        return Estimate(float(sample.mean()), None, count)
    quantile = t_quantile(CONFIDENCE, count - 1)
    return Estimate(float(sample.mean()), quantile * float(sample.std(ddof=1)) / count**0.5, count)


def relative_difference(values: Sequence[float], first: Sequence[float]) -> Estimate | None:
    """How much more than the first, as a share of it: a difference a seed, so that what a seed does to both is out.

    None where the first is 0 for some seed.
    """
    if not all(first):
        return None
    return estimate([value / base - 1.0 for value, base in zip(values, first, strict=True)])
