"""Jobs that come before all others, whatever they are worth: promoted ones, and those within a tenant's guarantee."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints

_TIMES = 1000.0
"""How many times the progress of such a job counts."""


def weight_of_assured(weight: Floats, assured: Floats) -> Floats:
    """Return the weight of each job, that of one which is assured some GPUs a thousandfold."""
    return np.where(assured > 0, _TIMES, 1.0) * weight if assured.any() else weight


def worth_of_assured(worth: Floats, job: Ints, gpus: Ints | Floats, assured: Floats) -> Floats:
    """Return what sizes are worth, a row each; what a job has with as many GPUs as it is assured counts a thousandfold.

    So does the least size of such a job, whatever it is. What it gains from more GPUs counts as that of all others.
    """
    if not assured.any():
        return worth
    least = np.full(len(assured), np.inf)
    np.minimum.at(least, job, gpus)
    within = (gpus <= np.maximum(assured, least)[job]) & (assured[job] > 0)
    most = np.zeros(len(assured))
    np.maximum.at(most, job[within], worth[within])
    first = np.where(within, worth, most[job])
    return worth + (_TIMES - 1) * first
