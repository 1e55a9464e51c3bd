"""The rate of windows and how sure it is, against closed forms and repeated draws."""

from __future__ import annotations

import numpy as np
import pytest

from muster.profiling.rates import Precision, rate_of


def test_even_windows_are_sure() -> None:
    rate = rate_of([(10, 2.0)] * 5, Precision())
    assert rate is not None
    assert (rate.steps_per_s, rate.error, rate.spread, rate.sure) == (5.0, 0.0, 0.0, True)


def test_long_windows_count_more() -> None:
    windows = [(10, 1.0), (30, 3.0), (12, 1.0), (20, 2.0), (8, 1.0)]
    rate = rate_of(windows, Precision())
    assert rate is not None
    assert rate.steps_per_s == pytest.approx(80 / 8)
    # Ratio estimate by hand: residuals 0, 0, 2, 0, -2; t of 4 degrees of freedom is 2.776.
    assert rate.error == pytest.approx(2.7764451 * np.sqrt(5 / 4 * 8) / 8 / 10)


def test_too_few_windows_say_nothing() -> None:
    assert rate_of([(10, 1.0)] * 4, Precision()) is None


def test_what_was_still_waiting_from_before_is_dropped() -> None:
    windows = [(40, 1.0), (25, 1.0), (10, 1.0), (11, 1.0), (9, 1.0), (10, 1.0), (11, 1.0), (9, 1.0)]
    rate = rate_of(windows, Precision(error=0.2))
    assert rate is not None
    assert (rate.steps_per_s, rate.windows) == (10.0, 6)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(500):
        seconds = rng.uniform(0.9, 1.4, 12)
        steps = np.round(100 * seconds * rng.normal(1, 0.05, 12)).astype(int)
        rate = rate_of(list(zip(steps.tolist(), seconds.tolist(), strict=True)), Precision())
        assert rate is not None
        held += abs(rate.steps_per_s - 100) <= rate.error * rate.steps_per_s
    # 95 %, a little less because leading windows are dropped where that looks surer.
    assert 0.85 <= held / 500 <= 0.99
