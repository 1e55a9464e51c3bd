"""What is left of jobs that train to a loss, from the losses that they have reported (Optimus §3.1)."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.problems import InputError
from muster.speed.parameter_server.loss_curve import LossCurve, fit_loss_curve
from muster.workload.sized import SizedArray

MOST_REPORTS = 60
"""Losses that are looked at, evenly spread over the iterations done."""
NOISE = 0.02
"""Of a loss that a job of a trace reports: a share of it, the standard deviation."""


def fitted_remaining(sized: SizedArray, index: Ints, done: Floats) -> Floats:
    """(jobs,) iterations left until their target loss; NaN: no target, or too few losses so far.

    `index` are the jobs' numbers, which seed the noise of what they report.
    """
    left = np.full(len(sized), np.nan)
    for at in np.flatnonzero(sized["target_loss"] > 0).tolist():
        steps, losses = reported_losses(sized[at], int(index[at]), float(done[at]))
        try:
            curve = fit_loss_curve(steps, losses)
            left[at] = curve.remaining_steps(float(sized[at]["target_loss"]), int(done[at]))
        except InputError:
            continue  # too few losses, or they do not fall towards the target yet
    return left


def reported_losses(sized: SizedArray, job: int, done: float) -> tuple[Floats, Floats]:
    """Iterations and the losses after them, as a job of a trace reports them: its curve with noise."""
    slope, offset, floor = sized["loss"].tolist()
    steps = np.unique(np.floor(np.linspace(0.0, done, MOST_REPORTS)))
    noise = np.random.default_rng([job, len(steps)]).normal(1.0, NOISE, len(steps))
    return steps, LossCurve(slope, offset, floor, 1.0).loss(steps) * np.maximum(noise, 1 - 5 * NOISE)
