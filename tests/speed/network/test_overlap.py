"""The overlap recurrence against all paths of a schedule, closed forms and invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.speed.network.overlap import exposed_seconds

seconds = st.floats(0.0, 10.0)


@st.composite
def iterations(
    draw: st.DrawFn,
) -> tuple[float, list[float], list[float], list[float], list[float], list[float]]:
    """Compute, ready times, sizes, updates, and by dimension latency and seconds per GB."""
    count = draw(st.integers(1, 4))
    dimensions = draw(st.integers(0, 3))
    ready = sorted(draw(st.lists(seconds, min_size=count, max_size=count)))
    sizes, updates = (draw(st.lists(seconds, min_size=count, max_size=count)) for _ in range(2))
    latency, per_gb = (draw(st.lists(seconds, min_size=dimensions, max_size=dimensions)) for _ in range(2))
    return ready[-1], ready, sizes, updates, latency, per_gb


def exposed(compute: float, *columns: list[float]) -> float:
    return exposed_seconds(compute, *(np.array(column, dtype=np.float64) for column in columns))


def longest_path(
    ready: list[float], sizes: list[float], latency: list[float], per_gb: list[float], i: int, d: int
) -> float:
    """End of message i in dimension d, as the longest chain of "starts only after" that leads to it."""
    if d < 0:
        return ready[i]
    before = [longest_path(ready, sizes, latency, per_gb, i, d - 1)]
    if i > 0:
        before.append(longest_path(ready, sizes, latency, per_gb, i - 1, d))
    return max(before) + latency[d] + per_gb[d] * sizes[i]


@settings(deadline=None)
@given(iterations())
def test_ends_with_the_longest_path_of_the_schedule(
    given_: tuple[float, list[float], list[float], list[float], list[float], list[float]],
) -> None:
    compute, ready, sizes, updates, latency, per_gb = given_
    ends = [
        longest_path(ready, sizes, latency, per_gb, i, len(latency) - 1) + updates[i]
        for i in range(len(ready))
    ]
    assert exposed(*given_) == pytest.approx(max(0.0, max(ends) - compute), abs=1e-9)


@settings(deadline=None)
@given(iterations())
def test_never_more_than_all_communication_and_updates_in_a_row(
    given_: tuple[float, list[float], list[float], list[float], list[float], list[float]],
) -> None:
    _, _, sizes, updates, latency, per_gb = given_
    in_a_row = sum(a + b * size for a, b in zip(latency, per_gb, strict=True) for size in sizes)
    assert 0.0 <= exposed(*given_) <= in_a_row + max(updates) + 1e-9


@settings(deadline=None)
@given(iterations(), st.floats(0.0, 1.0))
def test_a_faster_network_never_exposes_more(
    given_: tuple[float, list[float], list[float], list[float], list[float], list[float]], factor: float
) -> None:
    compute, ready, sizes, updates, latency, per_gb = given_
    faster = [b * factor for b in per_gb]
    assert exposed(compute, ready, sizes, updates, latency, faster) <= exposed(*given_) + 1e-9


def test_one_queue_closed_forms() -> None:
    """All ready at once: the sum. Ready far apart: only the last one shows."""
    assert exposed(1.0, [1.0] * 5, [2.0] * 5, [0.0] * 5, [0.1], [0.05]) == pytest.approx(5 * 0.2)
    assert exposed(4.0, [1.0, 2.0, 3.0, 4.0], [2.0] * 4, [0.0] * 4, [0.1], [0.05]) == pytest.approx(0.2)


def test_two_dimensions_work_at_the_same_time() -> None:
    """A pipeline: n messages through two stages of one second take n + 1 seconds."""
    assert exposed(0.5, [0.5] * 6, [1.0] * 6, [0.0] * 6, [0.0, 0.0], [1.0, 1.0]) == pytest.approx(7.0)
