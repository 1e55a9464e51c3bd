"""The multiple-choice multi-dimensional knapsack, once, for SMD's selection and Synergy's opt.

Columns say what each group (a job) may take, at what profit and usage; `choose` takes at most one a group (or
exactly one, where the group says so) within the capacity, and proves how far from the best it can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from muster.schedulers.admission.knapsack.columns import (
    NOTHING,
    Columns,
    FloatArray,
    InfeasibleError,
    IntArray,
    SolverTable,
    tabulate,
)
from muster.schedulers.admission.knapsack.integer import SolverEffort, improve
from muster.schedulers.admission.knapsack.relaxation import (
    Relaxation,
    prices_of_samples,
    relax,
    where_nothing_is_short,
)
from muster.schedulers.admission.knapsack.rounding import floor, refilled, served_at

__all__ = [
    "FAST",
    "NOTHING",
    "THOROUGH",
    "Columns",
    "InfeasibleError",
    "KnapsackChoice",
    "SolverEffort",
    "choose",
    "prices_of",
]


THOROUGH = SolverEffort()
FAST = SolverEffort(nodes=0)
"""The relaxation, floored and refilled: typically within a few hundredths of a per cent at 1,000 groups."""


@dataclass(frozen=True, eq=False)
class KnapsackChoice:
    """A choice that fits, and its certificate."""

    chosen: IntArray
    """(groups,): the column taken, or NOTHING."""
    value: float
    bound: float
    """No choice within the capacity has more profit."""
    prices: FloatArray
    """(resources,): profit that one more unit of each would be worth, in the relaxation."""
    out_of_time: bool = False
    """Whether the search ended by its seconds, and not because it was good enough or by a limit that is the same
    each time."""

    @property
    def gap(self) -> float:
        """How much the best could have more, as a part of the value."""
        return max(0.0, self.bound - self.value) / max(abs(self.value), 1e-12)


def choose(
    columns: Columns,
    capacity: FloatArray,
    effort: SolverEffort = THOROUGH,
    incumbent: IntArray | None = None,
    near: FloatArray | None = None,
) -> KnapsackChoice:
    """The most profitable choice found; never worse than `incumbent` (a column or NOTHING for each group).

    `near` are prices that may be near, as those of a question of before. Raises InfeasibleError where groups that must
    choose cannot all be served.
    """
    if not columns.must_choose.size:
        return KnapsackChoice(np.zeros(0, np.int64), 0.0, 0.0, np.zeros_like(capacity))
    table = tabulate(columns, capacity)
    known = None if incumbent is None else _in_table(table.original, table.group, incumbent)
    unit = np.where(capacity > 0, capacity, 1.0) / table.profit_unit
    best, bound, prices, out_of_time = _chosen(table, known, effort, None if near is None else near * unit)
    if best is None:
        raise InfeasibleError(
            "no choice that serves every group that must be served was found within the capacity"
        )
    return KnapsackChoice(
        chosen=table.original[best],
        value=table.value(best),
        bound=max(bound, table.value(best)),
        prices=prices / unit,
        out_of_time=out_of_time,
    )


def _chosen(
    table: SolverTable, known: IntArray | None, effort: SolverEffort, near: FloatArray | None
) -> tuple[IntArray | None, float, FloatArray, bool]:
    """The best whole choice found, a bound on all of them, prices, and whether the search ended by its seconds.

    The relaxation is solved only if neither the prices that may be near nor those of a sample are near enough.
    """
    plenty = where_nothing_is_short(table)
    if plenty is not None:
        return plenty.active, plenty.bound * table.profit_unit, plenty.prices, False
    prices, at_least = np.zeros(table.capacity.size), -np.inf if known is None else table.value(known)
    for prices in chain([] if near is None else [near], prices_of_samples(table)):
        bound = table.bound_at(prices)
        best = served_at(table, prices, bound)
        if best is not None and table.value(best) >= at_least and _is_good_enough(table, best, bound, effort):
            return best, bound, prices, False
    relaxation = relax(table, np.zeros(0, np.int64) if known is None else known, prices)
    best, bound, out_of_time = _rounded(table, relaxation, known, effort)
    return best, bound, relaxation.prices, out_of_time


def _is_good_enough(table: SolverTable, choice: IntArray, bound: float, effort: SolverEffort) -> bool:
    """Whether the best can be hardly better than a choice."""
    return bound - table.value(choice) <= effort.gap * abs(table.value(choice))


def _rounded(
    table: SolverTable, relaxation: Relaxation, known: IntArray | None, effort: SolverEffort
) -> tuple[IntArray | None, float, bool]:
    """The best whole choice found, a bound on all of them, and whether the search ended by its seconds."""
    bound = relaxation.bound * table.profit_unit
    candidates = [
        refilled(table, start, relaxation.prices)
        for start in (floor(table, relaxation), known)
        if start is not None and table.fits(start)
    ]
    best = max(candidates, key=table.value, default=None)
    if effort.nodes == 0 or (best is not None and _is_good_enough(table, best, bound, effort)):
        return best, bound, False
    best, scaled, out_of_time = improve(table, relaxation, best, effort)
    # A gain smaller than the gap may be left: nothing that fits stays idle.
    best = best if best is None else refilled(table, best, relaxation.prices)
    return best, scaled * table.profit_unit, out_of_time


def prices_of(columns: Columns, capacity: FloatArray) -> FloatArray:
    """(resources,): profit that one more unit of each would be worth, in the relaxation alone."""
    table = tabulate(columns, capacity)
    relaxation = relax(table, np.zeros(0, np.int64))
    return relaxation.prices * table.profit_unit / np.where(capacity > 0, capacity, 1.0)


def _in_table(original: IntArray, group: IntArray, incumbent: IntArray) -> IntArray | None:
    """Where the incumbent's columns stand in the table; None if one of them does not fit even alone."""
    wanted = incumbent[group] == original
    return np.flatnonzero(wanted) if int(wanted.sum()) == incumbent.size else None
