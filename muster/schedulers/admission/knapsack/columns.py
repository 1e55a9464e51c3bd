"""What may be chosen: the columns of a multiple-choice multi-dimensional knapsack."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from muster.schedulers.admission.knapsack.columns_core import best_of_each, tabulated

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NOTHING = -1
"""The choice of a group of which no column is taken."""


@dataclass(frozen=True, eq=False)
class Columns:
    """Ways to serve each group (a job); of a group at most one column is taken, or exactly one."""

    group: IntArray
    """(columns,): 0 .. groups - 1, ascending."""
    profit: FloatArray
    usage: FloatArray
    """(columns, resources), from 0 on, in the units of the capacity."""
    must_choose: NDArray[np.bool_]
    """(groups,): exactly one column where true, at most one where false."""


class InfeasibleError(Exception):
    """Even the cheapest choices of the groups that must have one exceed the capacity together."""


@dataclass(frozen=True, eq=False)
class SolverTable:
    """The columns as the solver wants them: one way "nothing" for each optional group, numbers of order one.

    Every group then takes exactly one column, and `starts` cuts the columns into groups.
    """

    group: IntArray
    starts: IntArray
    profit: FloatArray
    usage: FloatArray
    capacity: FloatArray
    original: IntArray
    """The caller's column, or NOTHING."""
    profit_unit: float

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self.starts.size

    def best_of_each_group(self, score: FloatArray) -> IntArray:
        """The first column with the highest score in each group."""
        return best_of_each(score, self.starts)

    @cached_property
    def cheapest(self) -> IntArray:
        """The column of each group that uses the least in all."""
        return self.best_of_each_group(-self.usage.sum(axis=1))

    def value(self, choice: IntArray) -> float:
        """The profit of a choice (a column of each group), in the caller's unit."""
        return float(self.profit[choice].sum()) * self.profit_unit

    def bound_at(self, prices: FloatArray) -> float:
        """What no choice can have more profit than, by these prices (Lagrange), in the caller's unit."""
        reduced = self.profit - self.usage @ prices
        most = float(reduced[self.best_of_each_group(reduced)].sum())
        return (float(self.capacity @ prices) + most) * self.profit_unit

    def fits(self, choice: IntArray) -> bool:
        """Whether a choice stays within the capacity, but for rounding of the sum."""
        return bool(np.all(self.usage[choice].sum(axis=0) <= self.capacity + ROUNDING))

    def leaves_some(self, choice: IntArray) -> bool:
        """Whether a choice leaves something of each resource that it uses, more than rounding of the sum."""
        used = self.usage[choice].sum(axis=0)
        return bool(np.all((used < self.capacity - ROUNDING) | (used == 0)))

    def one_group_of(self, count: int) -> SolverTable:
        """Every `count`-th group, in as large a part of the capacity."""
        columns = np.flatnonzero(self.group % count == 0)
        group = self.group[columns] // count
        return SolverTable(
            group=group,
            starts=np.flatnonzero(np.diff(group, prepend=-1)),
            profit=self.profit[columns],
            usage=self.usage[columns],
            capacity=self.capacity / count,
            original=self.original[columns],
            profit_unit=self.profit_unit,
        )


ROUNDING = 1e-9
"""Of a capacity that counts as 1."""


def tabulate(columns: Columns, capacity: FloatArray) -> SolverTable:
    """Scale, add the empty ways, drop the columns that fit not even alone."""
    unit = np.where(capacity > 0, capacity, 1.0)
    limit = np.where(capacity > 0, 1.0, 0.0)
    group, profit, usage, original, starts, empty = tabulated(
        np.ascontiguousarray(columns.group, np.int64),
        np.ascontiguousarray(columns.profit),
        np.ascontiguousarray(columns.usage),
        columns.must_choose,
        unit,
        limit + ROUNDING,
        NOTHING,
    )
    if empty >= 0:
        raise InfeasibleError(f"group {empty} has no way that fits the capacity even alone")
    profit_unit = float(np.abs(profit).max()) or 1.0
    return SolverTable(
        group=group,
        starts=starts,
        profit=profit / profit_unit,
        usage=usage,
        capacity=limit,
        original=original,
        profit_unit=profit_unit,
    )
