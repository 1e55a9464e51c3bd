"""The Optimus speed forms from a few measured steps (Optimus §3.2): the coefficients from 0 on that fit best.

Residuals are relative: each measurement counts alike, whether it took milliseconds or minutes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from muster.problems import InputError, Problem
from muster.speed.parameter_server.layers import FloatArray
from muster.speed.parameter_server.step_time import StepTime, asynchronous


def fit_synchronous_coefficients(
    worker_batch: ArrayLike, workers: ArrayLike, servers: ArrayLike, seconds: ArrayLike
) -> FloatArray:
    """th0..th4 of: seconds = th0 worker_batch + th1 + th2 w/p + th3 w + th4 p."""
    return _fit(_synchronous_terms(worker_batch, workers, servers), seconds)


def synchronous_seconds(
    coefficients: FloatArray, worker_batch: ArrayLike, workers: ArrayLike, servers: ArrayLike
) -> FloatArray:
    """Seconds an iteration by the form above."""
    return np.asarray(_synchronous_terms(worker_batch, workers, servers) @ coefficients, dtype=np.float64)


def synchronous_step(coefficients: FloatArray, batch: float) -> StepTime:
    """The fitted form as a step time for a job whose batch, over all its workers, is `batch`."""
    per_sample, constant, load, per_worker, per_server = coefficients
    compute = np.array([per_sample * batch, constant])
    return StepTime(
        terms=np.array([[compute[0], constant, load]]),
        compute=compute,
        per_worker_seconds=np.asarray(per_worker),
        per_server_seconds=np.asarray(per_server),
        asynchronous=np.asarray(False),
    )


def fit_asynchronous(workers: ArrayLike, servers: ArrayLike, iterations_per_second: ArrayLike) -> StepTime:
    """speed = w / (th0 + th1 w/p + th2 w + th3 p), from measured speeds."""
    w, p = np.asarray(workers, dtype=np.float64), np.asarray(servers, dtype=np.float64)
    step = w / np.asarray(iterations_per_second, dtype=np.float64)
    constant, load, per_worker, per_server = _fit(np.column_stack([np.ones_like(w), w / p, w, p]), step)
    return asynchronous(float(constant), float(load), float(per_worker), float(per_server))


def _synchronous_terms(worker_batch: ArrayLike, workers: ArrayLike, servers: ArrayLike) -> FloatArray:
    w, p = np.asarray(workers, dtype=np.float64), np.asarray(servers, dtype=np.float64)
    return np.column_stack([np.asarray(worker_batch, dtype=np.float64), np.ones_like(w), w / p, w, p])


def _fit(terms: FloatArray, seconds: ArrayLike) -> FloatArray:
    measured = np.asarray(seconds, dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(measured) & (measured > 0)))
    if bad.size or not measured.size:
        found = measured[bad].tolist()
        raise InputError(
            Problem("measured speeds", "allowed: at least one, each finite and above 0", found=found)
        )
    return np.asarray(nnls(terms / measured[:, None], np.ones_like(measured))[0], dtype=np.float64)
