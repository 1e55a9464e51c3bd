"""What every generator draws: arrivals and durations, each from its own seeded stream.

A stream of its own means that another load or another mix of sizes leaves the durations as they were.
Times are rounded to milliseconds, so that the last bit of a processor's logarithm is not in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from muster.cluster.portable_math import log, power
from muster.problems import InputError, Problem
from muster.workload.traces.columns import LARGEST_SECONDS

LARGEST_COUNT = 10_000_000
"""Of jobs, tenants or GPUs."""

LogRange = tuple[float, float]
"""Minutes as powers of ten, from and to: 10^U(from, to)."""

SHORT_SHARE = 0.8
"""Share of jobs whose duration comes from the shorter range (Synergy, "Workloads")."""


def streams(seed: int, count: int) -> list[np.random.Generator]:
    """Independent generators, the same for the same seed; more of them change none of the earlier."""
    return [np.random.default_rng([seed, stream]) for stream in range(count)]


def check_span(flag: str, rate: float, submit: NDArray[np.float64]) -> NDArray[np.float64]:
    """The submission seconds; InputError names the flag of a rate that is too small for a trace."""
    if not (submit <= LARGEST_SECONDS).all():
        what = "the last job arrives after 1e12 seconds; allowed: a larger number"
        raise InputError(Problem(flag, what, found=rate))
    return submit


def poisson_arrivals(generator: np.random.Generator, jobs: int, per_hour: float) -> NDArray[np.float64]:
    """Submission seconds of a Poisson process; the first job waits for its arrival like all others."""
    seconds: NDArray[np.float64] = np.cumsum(generator.exponential(3600.0 / per_hour, jobs))
    return seconds.round(3)


def two_range_durations(
    generator: np.random.Generator, jobs: int, shorter: LogRange, longer: LogRange
) -> NDArray[np.float64]:
    """Seconds: 60 x 10^U(shorter) with probability 0.8, else 60 x 10^U(longer)."""
    is_short = generator.random(jobs) < SHORT_SHARE
    position = generator.random(jobs)
    low = np.where(is_short, shorter[0], longer[0])
    high = np.where(is_short, shorter[1], longer[1])
    seconds: NDArray[np.float64] = 60.0 * power(10.0, low + position * (high - low))
    return seconds.round(3)


def mean_of_two_ranges(shorter: LogRange, longer: LogRange) -> float:
    """Expected seconds of `two_range_durations`.

    The mean of 10^U(a, b) is (10^b - 10^a) / ((b - a) ln 10).
    """
    means = [(10.0**high - 10.0**low) / ((high - low) * log(10.0)) for low, high in (shorter, longer)]
    return 60.0 * float(SHORT_SHARE * means[0] + (1 - SHORT_SHARE) * means[1])


def drawn(
    generator: np.random.Generator, values: Sequence[int], weights: Sequence[float], count: int
) -> NDArray[np.int64]:
    """Values drawn with these weights."""
    edges = np.cumsum(weights) / np.sum(weights)
    return np.asarray(values, dtype=np.int64)[np.searchsorted(edges, generator.random(count), side="right")]


def check_settings(seed: int, counts: Mapping[str, int], rates: Mapping[str, float]) -> None:
    """Refuses settings, named as on the command line, that no trace can be made from."""
    problems = [
        Problem(f"--{name}", f"allowed: a whole number from 1 to {LARGEST_COUNT:,}", found=value)
        for name, value in counts.items()
        if not 1 <= value <= LARGEST_COUNT
    ]
    problems += [
        Problem(f"--{name}", "allowed: a number above 0, at most 1e9", found=value)
        for name, value in rates.items()
        if not 0 < value <= 1e9
    ]
    if seed < 0:
        problems.append(Problem("--seed", "allowed: a whole number from 0 on", found=seed))
    if problems:
        raise InputError(*problems)
