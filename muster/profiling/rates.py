"""A rate from windows of (steps, seconds): its mean, its spread, and whether it is known well enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from muster.confidence import t_quantile

_CONFIDENCE = 0.95
_USUAL_CORRELATION, _USUAL_WINDOWS = 0.5, 8
"""Correlation of neighbouring windows that is believed before any is seen, and how many windows that counts as.

Measured on a shared machine, 60 windows of a job on one core: means of ten spread 1.8 times as much as of
independent ones, as at a correlation of 0.53.
"""
_MOST_CORRELATION = 0.9


@dataclass(frozen=True)
class Precision:
    """When a point has been measured enough."""

    error: float = 0.02
    """Half width of the 95 % confidence interval, relative to the mean."""
    least_windows: int = 4
    """From which on one looks; two looks in a row have to be sure, as a single one may be by luck."""
    most_windows: int = 10


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
    cpu_seconds: float | None = None
    """CPU time of one step over all processes of the job; None where it is not counted. More of it for the
    same step means a slower CPU."""

    def agrees_with(self, other: Rate) -> bool:
        """Whether the two intervals meet."""
        off = abs(self.steps_per_s - other.steps_per_s)
        return off <= self.error * self.steps_per_s + other.error * other.steps_per_s


def rate_of(windows: Sequence[tuple[int, float]], precision: Precision) -> Rate | None:
    """The rate over windows of (steps, seconds), as they came; None while there are too few to say anything."""
    now, before = _rate_of(windows, precision), _rate_of(windows[:-1], precision)
    if now is None or (before is not None and before.sure):
        return now
    return replace(now, sure=False)


def visited_again(first: Rate, again: Rate, precision: Precision) -> Rate:
    """One rate of two visits at different times; its interval reaches at least as far as both of them.

    So what drifts from one to the other is in the interval, of which the windows of one visit know nothing.
    """
    windows = first.windows + again.windows
    rates = np.array([first.steps_per_s, again.steps_per_s])
    weights = np.array([first.windows, again.windows]) / windows
    mean = float(weights @ rates)
    errors = weights * rates * [first.error, again.error]
    error = float(max(np.hypot(*errors), *np.abs(rates - mean))) / mean
    spread = (
        float(np.sqrt(weights @ ((rates * [first.spread, again.spread]) ** 2 + (rates - mean) ** 2))) / mean
    )
    cpu_seconds = None
    if first.cpu_seconds is not None and again.cpu_seconds is not None:
        cpu_seconds = float(weights @ [first.cpu_seconds, again.cpu_seconds])
    return Rate(mean, error, spread, windows, error <= precision.error, cpu_seconds)


def _rate_of(windows: Sequence[tuple[int, float]], precision: Precision) -> Rate | None:
    """By these windows alone.

    Leading windows are dropped as long as that makes the rest surer (MSER, White 1997), a third of them at
    most: batches prepared under the grant before are still waiting when a new one begins.
    """
    if len(windows) < precision.least_windows:
        return None
    steps, seconds = np.array(windows, dtype=float).T
    most_dropped = min(len(windows) // 3, len(windows) - precision.least_windows)
    errors = [_standard_error(steps[drop:], seconds[drop:]) for drop in range(most_dropped + 1)]
    drop = int(np.argmin(errors))
    steps, seconds = steps[drop:], seconds[drop:]
    count = len(steps)
    mean = steps.sum() / seconds.sum()
    wider = t_quantile(_CONFIDENCE, count - 1) * _widening(steps - mean * seconds)
    error = float(wider * errors[drop] / mean)
    spread = float(np.std(steps / seconds, ddof=1)) / mean
    return Rate(float(mean), error, spread, count, error <= precision.error)


def _standard_error(steps: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64]) -> float:
    """Of the ratio of two sums (Cochran, Sampling Techniques, ratio estimate), finite for two windows and more."""
    count = len(steps)
    off = steps - steps.sum() / seconds.sum() * seconds
    return float(np.sqrt(count / (count - 1) * (off @ off)) / seconds.sum())


def _widening(off: npt.NDArray[np.float64]) -> float:
    """How much less sure the mean is than of independent windows, by the correlation of neighbouring ones.

    As for a first-order autoregressive series, sqrt((1 + r) / (1 - r)); r less its bias, which is about
    (1 + 3 r) / count (Marriott and Pope 1954), drawn towards the usual one, as few windows say little about it.
    """
    count, square = len(off), float(off @ off)
    seen = float(off[1:] @ off[:-1]) / square if square else 0.0
    corrected = seen * count + 1 + _USUAL_CORRELATION * _USUAL_WINDOWS
    correlation = min(max(corrected / (count - 3 + _USUAL_WINDOWS), 0.0), _MOST_CORRELATION)
    return float(np.sqrt((1 + correlation) / (1 - correlation)))
