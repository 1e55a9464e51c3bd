"""Which CPU points to run: halve until it hurts, then search the knee (Synergy, optimistic profiling)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def search_knee(
    points: Sequence[float], measure: Callable[[float], T], speed: Callable[[T], float], threshold: float
) -> dict[float, T]:
    """What was measured at the points that the search for the knee needed, the largest first.

    The knee is the smallest point whose speed is within the threshold of the largest point's. Points are
    ascending and speed does not fall along them, or the search ends at one of several knees.
    """
    measured: dict[float, T] = {}

    def saturates(index: int) -> bool:
        measured[points[index]] = measure(points[index])
        return speed(measured[points[index]]) >= (1 - threshold) * speed(measured[points[-1]])

    high = len(points) - 1
    saturates(high)
    low = -1
    while high > 0:
        half = max(0, bisect_right(points, points[high] / 2) - 1)
        if not saturates(half):
            low = half
            break
        high = half
    while low >= 0 and high - low > 1:
        middle = (low + high) // 2
        if saturates(middle):
            high = middle
        else:
            low = middle
    return measured
