"""What the scaling laws of some applications have in common: where `muster.speed.scaling` has its prior from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muster.speed.scaling import Prior, ScalingLaw

UNKNOWN = Prior(
    np.array([-1.0, -1.0, 0.0, 0.0, -1.0, 0.0, -1.0]), np.array([2.0, 1.5, 1.0, 1.0, 1.5, 3.0, 2.0])
)
"""Hardly any knowledge: for many measured steps."""
_OWN = 3
"""Numbers of which other applications say nothing: fixed, per_sample and pair."""
_LEAST_SPREAD = np.array([0.2, 0.3, 0.2, 0.15, 0.3, 1.0, 0.4])


def common_prior(laws: Sequence[ScalingLaw]) -> Prior:
    """Return medians over the laws, and how far they are apart."""
    numbers = np.array([law.numbers[_OWN:] for law in laws])
    numbers[:, 5] = numbers[:, 5].clip(-4.0, 4.0)
    return Prior(np.median(numbers, axis=0), np.maximum(numbers.std(axis=0, ddof=1), _LEAST_SPREAD))
