"""Sia's and Pollux's model of a step's seconds, fitted to the configurations that a job has run.

compute = a + b x batch of a GPU; network = 0 on one GPU, c + d x (GPUs - 2) within a node, e + f x (GPUs - 2) over
several; step = (compute^g + network^g)^(1/g). What was not observed yet is believed to cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import Bounds, minimize

from muster.cluster.ledger_arrays import Floats

_LEAST, _SLOPE_STEP = 1e-8, 1e-30
_AT_FIRST = (1e-1, 1e-2) * 3 + (1.0 + 1e-3,)
_MOST_GAMMA = 10.0
_TOLERANCE = 1e-5
"""At which the search ends, as in Sia's simulator: a smaller one fits other models."""
CONSTANT_OF_SIA = 0.5
_ABOVE_WITHIN = 1.1
"""A network between nodes is believed to be slower than one within a node at least so many times."""


class Observation(NamedTuple):
    """What a job has measured on a configuration."""

    nodes: int
    gpus: int
    batch: int
    """Of one GPU."""
    compute_seconds: float
    step_seconds: float


Number: TypeAlias = Any
"""A number, or a column of them."""


class SpeedModel(NamedTuple):
    """The parameters of a fitted model."""

    compute: Number
    compute_by_batch: Number
    between: Number
    between_by_gpus: Number
    within: Number
    within_by_gpus: Number
    gamma: Number

    def compute_seconds(self, batch: Floats) -> Floats:
        """Seconds of a pass over a batch of one GPU, without synchronisation."""
        seconds: Floats = self.compute + self.compute_by_batch * batch
        return seconds

    def step_seconds(self, nodes: Floats, gpus: Floats, batch: Floats) -> Floats:
        """Seconds of a pass with synchronisation."""
        return np.exp(self.log_step_seconds(nodes, gpus, batch))

    def log_step_seconds(self, nodes: Floats, gpus: Floats, batch: Floats) -> Floats:
        """The logarithm of those."""
        first = np.where(nodes > 1, self.between, np.where(gpus > 1, self.within, _LEAST))
        each = np.where(nodes > 1, self.between_by_gpus, np.where(gpus > 1, self.within_by_gpus, _LEAST))
        network = first + each * np.maximum(gpus - 2, _LEAST)
        seconds: Floats = np.log(self.compute_seconds(batch) ** self.gamma + network**self.gamma) / self.gamma
        return seconds


def fitted(observations: Iterable[Observation], constant: float = CONSTANT_OF_SIA) -> SpeedModel:
    """The model with the least error of logarithms; parameters that nothing was observed of stay at nothing.

    `constant`: the part of the compute that no batch changes, where one batch was measured alone.
    """
    nodes, gpus, batch, compute, step = np.array(list(observations), np.float64).T
    start = np.array(_AT_FIRST)
    low, high = np.full(7, _LEAST), np.full(7, np.inf)
    low[6], high[6] = 1.0, _MOST_GAMMA
    if len(np.unique(batch)) == 1:
        start[0] = low[0] = high[0] = compute.mean() * constant
    several, more = nodes > 1, gpus > 2
    within = ~several & (gpus > 1)
    for at, seen in (
        (2, several.any()),
        (3, several.any() and more.any()),
        (4, within.any()),
        (5, within.any() and more.any()),
    ):
        if not seen:
            start[at] = low[at] = high[at] = _LEAST
    log_compute, log_step = np.log(compute), np.log(step)

    def errors(parameters: Number) -> Number:
        model = SpeedModel(*parameters.T[:, :, None])
        of_compute = np.log(model.compute_seconds(batch)) - log_compute
        of_step = model.log_step_seconds(nodes, gpus, batch) - log_step
        a = parameters.T
        growth = (a[3] / a[2]) ** 2 + (a[5] / a[4]) ** 2
        root = np.sqrt((of_compute**2).mean(axis=1)) + np.sqrt((of_step**2).mean(axis=1))
        return root + 1e-3 * (a[6] - 1) ** 2 + 1e-2 * growth

    def with_slope(parameters: Floats) -> tuple[float, Floats]:
        """The error and its exact slope, from steps along the imaginary axis."""
        values = errors(parameters + 1j * _SLOPE_STEP * np.eye(len(parameters)))
        return float(values[0].real), values.imag / _SLOPE_STEP

    found = minimize(
        with_slope,
        start,
        jac=True,
        bounds=Bounds(low, high, keep_feasible=True),
        method="L-BFGS-B",
        tol=_TOLERANCE,
    )
    model = SpeedModel(*found.x.tolist())
    if several.any():
        return model
    return model._replace(
        between=max(model.between, model.within * _ABOVE_WITHIN),
        between_by_gpus=max(model.between_by_gpus, model.within_by_gpus * _ABOVE_WITHIN),
    )
