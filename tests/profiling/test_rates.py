"""The rate of windows and how sure it is, against closed forms and repeated draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from muster.profiling.rates import Precision, Rate, rate_of, visited_again


def test_even_windows_are_sure() -> None:
    rate = rate_of([(10, 2.0)] * 5, Precision())
    assert rate is not None
    assert (rate.steps_per_s, rate.error, rate.spread, rate.sure) == (5.0, 0.0, 0.0, True)


def test_one_sure_look_is_not_enough() -> None:
    assert rate_of([(10, 2.0)] * 3, Precision()) is None
    once = rate_of([(10, 2.0)] * 4, Precision())
    assert once is not None
    assert (once.error, once.sure) == (0.0, False)


def test_long_windows_count_more() -> None:
    windows = [(10, 1.0), (30, 3.0), (12, 1.0), (20, 2.0), (8, 1.0)]
    rate = rate_of(windows, Precision(least_windows=5))
    assert rate is not None
    assert rate.steps_per_s == pytest.approx(80 / 8)
    # Ratio estimate by hand: residuals 0, 0, 2, 0, -2; t of 4 degrees of freedom is 2.776. Neighbours do not
    # correlate in them, so the correlation is (0 + 1 + 0.5 x 8) / (5 - 3 + 8) = 0.5.
    assert rate.error == pytest.approx(2.7764451 * np.sqrt(5 / 4 * 8) / 8 / 10 * np.sqrt(1.5 / 0.5))


def test_what_was_still_waiting_from_before_is_dropped() -> None:
    windows = [(40, 1.0), (25, 1.0), (10, 1.0), (11, 1.0), (9, 1.0), (10, 1.0), (11, 1.0), (9, 1.0)]
    rate = rate_of(windows, Precision(error=0.2))
    assert rate is not None
    assert (rate.steps_per_s, rate.windows) == (10.0, 6)


@pytest.mark.parametrize(("spread", "correlation", "least"), [(0.02, 0.0, 0.93), (0.05, 0.4, 0.87)])
def test_the_interval_holds_the_truth_at_any_stopping_window(
    spread: float, correlation: float, least: float
) -> None:
    """Autoregressive windows, stopped when sure as a profile does.

    Without the widening and the second look it is 91 % of the independent ones and 69 % of the others.
    """
    rng, precision = np.random.default_rng(7), Precision()
    held, draws = 0, 1000
    for _ in range(draws):
        noise, windows = rng.normal(), []
        while True:
            seconds = rng.uniform(0.95, 1.15)
            windows.append((round(1000 * seconds * (1 + spread * noise)), seconds))
            noise = correlation * noise + np.sqrt(1 - correlation**2) * rng.normal()
            rate = rate_of(windows, precision)
            if rate is not None and (rate.sure or len(windows) >= precision.most_windows):
                break
        held += abs(rate.steps_per_s - 1000) <= rate.error * rate.steps_per_s
    assert least <= held / draws <= 0.99


def test_two_visits_that_agree_are_surer_than_one() -> None:
    first, again = (Rate(rate, 0.03, 0.04, 5, False) for rate in (9.9, 10.1))
    both = visited_again(first, again, Precision(error=0.025))
    assert both.steps_per_s == pytest.approx(10.0)
    assert both.error == pytest.approx(0.03 / np.sqrt(2), rel=0.01)
    assert (both.windows, both.sure, both.cpu_seconds) == (10, True, None)
    counted = visited_again(replace(first, cpu_seconds=0.2), replace(again, cpu_seconds=0.4), Precision())
    assert counted.cpu_seconds == pytest.approx(0.3)


def test_two_visits_far_apart_make_an_interval_over_both() -> None:
    first, again = Rate(8.0, 0.01, 0.01, 5, True), Rate(12.0, 0.01, 0.01, 5, True)
    assert not first.agrees_with(again)
    assert first.agrees_with(Rate(8.1, 0.01, 0.01, 5, True))
    both = visited_again(first, again, Precision())
    assert (both.steps_per_s, both.sure) == (10.0, False)
    assert both.error == pytest.approx(0.2)
    assert both.spread == pytest.approx(0.2, rel=0.01)


def test_the_spread_of_a_few_windows_is_that_of_a_sample() -> None:
    """Rates 9, 10, 10, 11: squares of the deviations add up to 2, which is divided by 3."""
    rate = rate_of([(9, 1.0), (10, 1.0), (10, 1.0), (11, 1.0)], Precision(least_windows=4))
    assert rate is not None
    assert rate.windows == 4
    assert rate.spread == pytest.approx(np.sqrt(2 / 3) / 10)
