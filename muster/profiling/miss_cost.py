"""What reading a sample costs in CPU beyond taking it from the cache, and how fast a job then is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muster.profiling.rates import Rate

_HALVINGS = 60


def rate_beside(rates: Mapping[float, Rate], cores: float, cpu_seconds: float) -> float:
    """Steps a second with so many cores, when every step also needs this much CPU that it did not when measured.

    At x steps a second x times that much is gone, and the rest goes as far as it went when it was measured:
    x = rate(cores - x cpu_seconds), the rates linear between their points and proportional under the first.
    A job that waits for CPU slows down by all of it, one that has CPU to spare by nothing.
    """
    measured = [0.0, *sorted(rates)]
    most = rates[measured[-1]].steps_per_s
    # No CPU, no steps; and noise must not make less CPU better, as when a model is read.
    speeds = np.minimum(np.maximum.accumulate([0.0, *(rates[at].steps_per_s for at in measured[1:])]), most)
    low, high = 0.0, float(np.interp(cores, measured, speeds))
    for _ in range(_HALVINGS if cpu_seconds else 0):
        middle = (low + high) / 2
        if np.interp(cores - middle * cpu_seconds, measured, speeds) >= middle:
            low = middle
        else:
            high = middle
    return high
