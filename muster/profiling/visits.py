"""Points of a running job, each visited once or twice, so that a drift of the machine weighs alike on all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from muster.profiling.job import ProgressReport
from muster.profiling.rates import Precision, Rate, visited_again

Visit = Callable[[float, Precision], tuple[Rate, ProgressReport]]
"""Measures a point, for example a number of cores."""


class Visits:
    """What has been measured so far."""

    def __init__(self, visit: Visit, precision: Precision) -> None:
        self._visit = visit
        self._precision = precision
        # Two visits together have the windows of a point.
        self._of_a_visit = replace(precision, most_windows=precision.most_windows // 2)
        self.rates: dict[float, Rate] = {}
        self.last_report = ProgressReport(0, 0.0)
        """The job's last report."""

    def at(self, point: float) -> Rate:
        """The rate at a point; visits it if it has not been visited."""
        if point not in self.rates:
            self.rates[point] = self._measured(point)
        return self.rates[point]

    def visit_again(self) -> tuple[Rate, Rate]:
        """Goes back, from the smallest point to the largest, over all that are not sure; the largest's two visits.

        What drifts at an even pace, the job in its first minute or a machine that others use, thus weighs alike
        on every point. Where the largest point's visits disagree, the sure ones are visited too.
        """
        *others, most = sorted(self.rates)
        first, once = self.rates[most], [point for point in others if self.rates[point].sure]
        for point in others:
            if point not in once:
                self._again(point)
        last = self._again(most)
        if not first.agrees_with(last):
            for point in once:
                self._again(point)
        return first, last

    def _again(self, point: float) -> Rate:
        again = self._measured(point)
        self.rates[point] = visited_again(self.rates[point], again, self._precision)
        return again

    def _measured(self, point: float) -> Rate:
        rate, self.last_report = self._visit(point, self._of_a_visit)
        return rate
