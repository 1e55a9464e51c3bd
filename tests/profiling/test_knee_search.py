"""The search runs few points and ends at the knee that trying every point finds."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from muster.profiling.knee_search import search_knee

GAINS = st.lists(st.floats(0, 1), min_size=1, max_size=64)


@given(gains=GAINS, threshold=st.floats(0.01, 0.5))
def test_the_knee_is_that_of_a_search_over_all_points(gains: list[float], threshold: float) -> None:
    speeds: list[float] = []
    points = [float(number) for number in range(1, len(gains) + 1)]
    for gain in gains:
        speeds.append(gain + (speeds[-1] if speeds else 0.1))
    speed_at = dict(zip(points, speeds, strict=True))
    measured = search_knee(points, speed_at.__getitem__, lambda speed: speed, threshold)

    enough = (1 - threshold) * speeds[-1]
    knee = next(point for point in points if speed_at[point] >= enough)
    assert measured == {point: speed_at[point] for point in measured}
    assert knee in measured
    assert points[-1] in measured
    assert knee == points[0] or knee - 1 in measured
    assert min(point for point in measured if measured[point] >= enough) == knee
    assert len(measured) <= 2 * math.log2(len(points) + 1) + 2


def test_halving_stops_where_it_hurts() -> None:
    """24 cores, a knee at 9: 24, 12, 6 and the binary search between, none twice, nothing under 6."""
    tried = []

    def measure(cores: float) -> float:
        tried.append(cores)
        return min(cores, 9.0)

    search_knee([float(cores) for cores in range(1, 25)], measure, lambda speed: speed, 0.1)
    assert tried == [24, 12, 6, 9, 7, 8]


def test_an_insensitive_job_is_halved_to_the_end() -> None:
    assert list(search_knee([0.25, 0.5, 0.75, 1, 2], lambda _: 1.0, lambda speed: speed, 0.1)) == [
        2,
        1,
        0.5,
        0.25,
    ]
