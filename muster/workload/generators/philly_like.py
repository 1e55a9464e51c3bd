"""A workload like Microsoft's Philly: its sizes, durations by size, daily and weekly rhythm, and tenants.

The figures were measured on the Philly trace of 2017 (Microsoft, data CC-BY-4.0; its CSV form from
`shuoshuc/RFold`, MIT): 111,549 jobs; the rhythm on the 77 days from 3 October on, in which the log is dense.
Bursts beyond the rhythm and the link between a tenant and its jobs are not modelled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.cluster.portable_math import exp, log
from muster.workload.generators.draws import check_settings, check_span, drawn, streams
from muster.workload.trace import Trace, trace_of

SIZES = {1: 96_662, 2: 2_522, 4: 5_487, 8: 5_716, 16: 852, 32: 212, 64: 28, 128: 11}
"""Jobs by GPUs; 59 jobs of other sizes are left out."""

DURATION_CLASSES = (1, 2, 8, 16)
"""Jobs of so many GPUs and more, up to the next."""
DURATION_QUANTILES = (
    (0, 1, 1, 1, 1),
    (0.01, 15, 8, 13, 14),
    (0.05, 42, 14, 40, 37),
    (0.1, 58, 19, 86, 51),
    (0.2, 75, 37, 493, 266),
    (0.3, 235, 185, 1_274, 974),
    (0.4, 639, 788, 3_997, 2_469),
    (0.5, 1_198, 1_952, 12_534, 8_440),
    (0.6, 1_948, 13_164, 27_339, 17_340),
    (0.7, 2_734, 39_365, 76_611, 42_879),
    (0.8, 5_671, 92_077, 173_423, 75_590),
    (0.9, 15_586, 217_955, 365_267, 184_042),
    (0.95, 48_120, 429_659, 655_364, 371_030),
    (0.975, 150_733, 749_253, 1_090_296, 638_003),
    (0.99, 535_403, 1_464_019, 1_933_983, 1_295_413),
    (0.995, 1_089_312, 1_975_483, 2_568_370, 1_571_913),
    (0.999, 2_851_012, 4_014_051, 4_457_473, 3_268_144),
    (1, 5_196_151, 5_186_933, 5_187_472, 3_412_913),
)
"""Level, then the seconds at it for each of `DURATION_CLASSES`; runs of 0 s count as 1 s."""

MORNING = (1.30, 1.00, 1.27, 1.21, 0.89, 1.17, 1.56, 1.88, 1.12, 0.93, 0.78, 0.69)
AFTERNOON = (0.60, 0.63, 0.48, 0.62, 1.03, 0.75, 0.86, 0.74, 1.00, 0.92, 1.30, 1.26)
HOUR_FACTORS = (*MORNING, *AFTERNOON)
"""Submissions by hour of the day on the log's clock, 1 being the mean."""
DAY_FACTORS = (0.90, 1.12, 1.18, 1.25, 1.44, 0.60, 0.51)
"""Submissions by day of the week from Monday on, 1 being the mean."""

TENANT_EXPONENT = 1.5
"""Share of the k-th largest tenant ~ k^-1.5: the largest of 15 gets 48 % (Philly's: 50 %)."""


def generate(jobs: int, per_hour: float = 56.5, tenants: int = 15, seed: int = 0) -> Trace:
    """A trace with durations from Monday 0:00 on, at `per_hour` jobs an hour over the week."""
    check_settings(seed, {"jobs": jobs, "tenants": tenants}, {"per-hour": per_hour})
    arrivals, durations, sizes, owners = streams(seed, 4)
    gpus = drawn(sizes, list(SIZES), list(SIZES.values()), jobs)
    ranks = range(1, tenants + 1)
    owner = drawn(owners, ranks, [rank**-TENANT_EXPONENT for rank in ranks], jobs)
    columns = {
        "job_id": np.arange(jobs),
        "submit_seconds": check_span("--per-hour", per_hour, rhythmic_arrivals(arrivals, jobs, per_hour)),
        "gpus": gpus,
        "duration_seconds": durations_by_size(durations, gpus),
        "tenant": [f"vc{rank}" for rank in owner],
    }
    return trace_of(columns, f"philly-like generator: {per_hour:g} per hour, {tenants} tenants, seed {seed}")


def rhythmic_arrivals(generator: np.random.Generator, jobs: int, per_hour: float) -> NDArray[np.float64]:
    """Submission seconds of a Poisson process whose rate follows the hours of the week.

    A process of rate 1 is put through the inverse of the expected number of jobs so far, which is linear
    within each hour.
    """
    rate = np.outer(DAY_FACTORS, HOUR_FACTORS).ravel()
    rate *= per_hour / rate.mean()
    expected = np.concatenate(([0.0], np.cumsum(rate)))
    weeks, within = np.divmod(np.cumsum(generator.exponential(1.0, jobs)), expected[-1])
    hours = weeks * len(rate) + np.interp(within, expected, np.arange(len(expected)))
    return np.round(hours * 3600.0, 3)


def durations_by_size(generator: np.random.Generator, gpus: NDArray[np.int64]) -> NDArray[np.float64]:
    """Seconds from the quantiles of each size, logarithmic in between."""
    position = generator.random(len(gpus))
    seconds = np.empty(len(gpus))
    levels, *quantiles = np.array(DURATION_QUANTILES).T
    for least, column in zip(DURATION_CLASSES, quantiles, strict=True):
        these = gpus >= least
        seconds[these] = exp(np.interp(position[these], levels, log(column)))
    return np.round(seconds, 3)
