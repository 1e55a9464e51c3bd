"""Optimus' form of a synchronous step, fitted to steps that a job has shown (Optimus §3.2).

    step(w, p) = th0 / w + th1 + th2 w/p + th3 w + th4 p

with coefficients from 0 on and least squares of relative errors. th0 is that of the job's whole batch. A ring has no
servers: its th2 and th4 are 0.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from muster.speed.parameter_server.layers import FloatArray

NOISE = 0.02
"""Of a step that a job of a trace reports: a share of it, the standard deviation."""
_COEFFICIENTS = 5


def fitted_form(workers: FloatArray, servers: FloatArray, seconds: FloatArray) -> FloatArray:
    """The five coefficients that are closest to these steps; a ring has 0 servers everywhere."""
    nothing = np.zeros_like(workers)
    has_servers = servers > 0
    load = np.divide(workers, servers, out=nothing.copy(), where=has_servers)
    terms = np.column_stack([1 / workers, np.ones_like(workers), load, workers, servers])
    relative, wanted = terms / seconds[:, None], np.ones_like(seconds)
    best, least = np.zeros(_COEFFICIENTS), np.inf
    usable = [column for column in range(_COEFFICIENTS) if terms[:, column].any()]
    # The best fit without negative coefficients is the plain best fit of those of its coefficients that are not 0.
    for count in range(1, len(usable) + 1):
        for chosen in combinations(usable, count):
            found = np.linalg.lstsq(relative[:, chosen], wanted, rcond=None)[0]
            error = float(np.sum((relative[:, chosen] @ found - wanted) ** 2))
            if (found >= 0).all() and error < least * (1 - 1e-9) - 1e-15:
                best, least = np.zeros(_COEFFICIENTS), error
                best[list(chosen)] = found
    return best


def reported_seconds(seconds: float, job: int, workers: int, servers: int) -> float:
    """What a job of a trace reports of a step that takes so long: with noise, the same for a size each time."""
    noise = np.random.default_rng([job, workers, servers]).normal(1.0, NOISE)
    return float(seconds * max(noise, 1 - 5 * NOISE))
