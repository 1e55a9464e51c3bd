"""Quantiles of Student's t distribution, for the confidence interval of a mean."""

from __future__ import annotations

from math import cos, pi, sin, sqrt, tan


def t_quantile(confidence: float, degrees: int) -> float:
    """The t that a Student variable of so many degrees of freedom stays within, on both sides, with this probability.

    Bisects the closed form of the probability (Abramowitz and Stegun 26.7.3 and 26.7.4) over atan(t / sqrt(degrees)).
    """
    low, high = 0.0, pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return sqrt(degrees) * tan(high)


def _within(theta: float, degrees: int) -> float:
    """The probability of |t| <= sqrt(degrees) * tan(theta)."""
    if degrees == 1:
        return 2 / pi * theta
    square, odd = cos(theta) ** 2, degrees % 2
    term = total = cos(theta) if odd else 1.0
    for at in range(2 + odd, degrees - 1, 2):
        term *= square * (at - 1) / at
        total += term
    return 2 / pi * (theta + sin(theta) * total) if odd else sin(theta) * total
