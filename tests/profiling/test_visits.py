"""The order of visits against machines that change while a job is measured; the machines are formulas."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.profiling.job import ProgressReport
from muster.profiling.optimistic import visit_knee
from muster.profiling.rates import Precision, Rate
from muster.profiling.visits import Visits

POINTS = tuple(float(cores) for cores in range(1, 25))


class Machine:
    """Measures by a formula; each visit is one unit of time later."""

    def __init__(self, speed: Callable[[float, int], float], error: float) -> None:
        self._speed = speed
        self._error = error
        self.visited: list[float] = []

    def measure(self, cores: float, precision: Precision) -> tuple[Rate, ProgressReport]:
        rate = self._speed(cores, len(self.visited))
        self.visited.append(cores)
        return Rate(rate, self._error, self._error, 5, self._error <= precision.error), ProgressReport(0, 0.0)


def measured_on(machine: Machine) -> tuple[dict[float, Rate], Rate, Rate]:
    visits = Visits(machine.measure, Precision())
    first, last = visit_knee(visits, POINTS)
    return visits.rates, first, last


def test_an_even_drift_weighs_alike_on_every_point() -> None:
    machine = Machine(lambda cores, time: min(cores, 9.0) * (1 - 0.003 * time), error=0.03)
    rates, first, last = measured_on(machine)
    assert machine.visited == [24, 12, 6, 9, 7, 8, 6, 7, 8, 9, 12, 24]
    reference = rates[24.0].steps_per_s
    assert first.agrees_with(last)
    for cores in rates:
        assert rates[cores].steps_per_s / reference == pytest.approx(min(cores, 9.0) / 9, rel=0.01)


def test_a_steady_machine_is_asked_again_once() -> None:
    machine = Machine(lambda cores, _: min(cores, 9.0), error=0.001)
    rates, first, last = measured_on(machine)
    assert machine.visited == [24, 12, 6, 9, 7, 8, 24]
    assert (first, last, rates[24.0].windows) == (last, first, 10)


def test_a_slow_beginning_does_not_settle_where_the_knee_is() -> None:
    """The first visit, of the largest point, gets four fifths: by that alone the knee would be at 7 cores."""
    machine = Machine(lambda cores, time: min(cores, 9.0) * (0.8 if time == 0 else 1.0), error=0.001)
    rates, first, last = measured_on(machine)
    assert not first.agrees_with(last)
    # 8 cores are run only because of the second visit of the largest point.
    assert machine.visited == [24, 12, 6, 9, 7, 24, 6, 7, 9, 12, 8]
    enough = 0.9 * rates[24.0].steps_per_s
    assert min(cores for cores, rate in rates.items() if rate.steps_per_s >= enough) == 8
    assert rates[24.0].error > 0.1, "over both visits"
