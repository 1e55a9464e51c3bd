"""How much an iteration of a larger total batch advances a job, against Pollux's formula."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.speed.statistical_efficiency import gain

BATCHES = st.floats(1, 1e6)
NOISE = st.floats(0, 1e8)


@given(BATCHES, st.floats(1, 1e4), NOISE)
def test_gain_is_throughput_times_efficiency(initial: float, times: float, noise: float) -> None:
    batch = times * initial
    efficiency = (noise + initial) / (noise + batch)
    assert gain(times, 1.0, noise / initial) == pytest.approx(times * efficiency, rel=1e-9)


@given(BATCHES, st.floats(1, 1e4), NOISE)
def test_gain_lies_between_its_two_bounds(initial: float, times: float, noise: float) -> None:
    found = gain(times, 1.0, noise / initial)
    assert 1 - 1e-9 <= found <= min(times, (noise + initial) / initial) * (1 + 1e-9)


def test_the_initial_batch_gains_exactly_one() -> None:
    assert gain(1.0, 3.0, 5.0) == gain(1.0, 1.0, 0.0) == gain(1.0, 1.0, 7.3) == gain(1.0, 0.1, 0.7) == 1.0


def test_without_noise_a_larger_batch_is_of_no_use() -> None:
    assert gain(8.0, 1.0, 0.0) == 1.0
    assert gain(8.0, 0.0, 1.0) == 8.0  # nothing but noise: it is worth its size
