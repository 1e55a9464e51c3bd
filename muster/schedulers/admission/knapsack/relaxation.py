"""The linear relaxation by column generation: few columns in the program, all priced at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import highspy
import numpy as np

from muster.schedulers.admission.knapsack.columns import FloatArray, InfeasibleError, IntArray, SolverTable
from muster.schedulers.admission.knapsack.columns_core import entries_of

ROUNDS_AT_MOST = 60
TOLERANCE = 1e-7
"""Of the relaxation's value; the bound is valid whatever the tolerance."""
SAMPLED_FROM = 300
"""Groups from which on a sample of them is solved first."""
SAMPLE = 4
"""One group of so many is in the sample."""


@dataclass(frozen=True, eq=False)
class Relaxation:
    """The best fractional choice found, and what it proves."""

    prices: FloatArray
    """Of each resource, from 0 on: those of the best bound."""
    bound: float
    """No choice has more profit (scaled)."""
    active: IntArray
    """The columns of the restricted program."""
    share: FloatArray
    """How much of each active column is taken."""


def where_nothing_is_short(table: SolverTable) -> Relaxation | None:
    """The relaxation where each group has its best column, and something of each resource is left."""
    best = table.best_of_each_group(table.profit)
    if not table.leaves_some(best):
        return None
    no_prices = np.zeros(table.capacity.size)  # What is not used up has no price.
    return Relaxation(no_prices, float(table.profit[best].sum()), best, np.ones(best.size))


def relax(table: SolverTable, also: IntArray, likely: FloatArray | None = None) -> Relaxation:
    """Solve the relaxation; `also` are columns to start with (an incumbent's), `likely` prices that may be near."""
    found = where_nothing_is_short(table)
    if found is not None:
        return found
    if likely is None:
        *_, likely = np.zeros(table.capacity.size), *prices_of_samples(table)
    cheapest = table.cheapest
    near = table.best_of_each_group(table.profit - table.usage @ likely)
    program = _Program(table, np.concatenate([cheapest, near, also]))
    if not table.fits(cheapest):
        overrun, _ = program.generate(np.zeros_like(table.profit), overrun_cost=1.0)
        if overrun < -1e-7:
            raise InfeasibleError("even shares of the cheapest ways exceed the capacity together")
    _, relaxation = program.generate(table.profit, overrun_cost=None)
    program.solver.clearModel()
    _IDLE.append(program.solver)
    return relaxation


def prices_of_samples(table: SolverTable) -> Iterator[FloatArray]:
    """Prices of ever larger samples of many groups, each in as large a part of the capacity; none for few groups.

    Where they are near the final ones, few columns have to be added: without them the work grows with the square of
    the number of groups.
    """
    if table.groups < SAMPLED_FROM:
        return
    sample = table.one_group_of(SAMPLE)
    if sample.fits(sample.cheapest):
        likely = None
        for likely in prices_of_samples(sample):
            yield likely
        yield relax(sample, np.zeros(0, np.int64), likely).prices


_DUAL = int(highspy.simplex_constants.SimplexStrategy.kSimplexStrategyDual)
_PRIMAL = int(highspy.simplex_constants.SimplexStrategy.kSimplexStrategyPrimal)


class _Program:
    """The restricted linear program: rows are the groups, then the resources; overruns come first."""

    def __init__(self, table: SolverTable, columns: IntArray) -> None:
        self.table = table
        self.solver = _idle_solver()
        resources = table.capacity.size
        rows = table.groups + resources
        # Rows: one column of each group; the usage within the capacity.
        lower = np.concatenate([np.ones(table.groups), np.full(resources, -highspy.kHighsInf)])
        upper = np.concatenate([np.ones(table.groups), table.capacity])
        none = np.zeros(0)
        self.solver.addRows(rows, lower, upper, 0, np.zeros(rows, np.int32), none.astype(np.int32), none)
        self.solver.addCols(
            resources,
            np.zeros(resources),
            np.zeros(resources),
            np.zeros(resources),
            resources,
            np.arange(resources, dtype=np.int32),
            np.arange(table.groups, rows, dtype=np.int32),
            np.full(resources, -1.0),
        )
        self.active = np.zeros(0, dtype=np.int64)
        self.is_active = np.zeros(table.group.size, np.bool_)
        self._add(np.unique(columns), table.profit)

    def generate(self, profit: FloatArray, overrun_cost: float | None) -> tuple[float, Relaxation]:
        """Add columns until none has a reduced profit; overruns cost so much, or are not allowed (None)."""
        table, resources = self.table, self.table.capacity.size
        overruns = np.arange(resources, dtype=np.int32)
        longest = 0.0 if overrun_cost is None else highspy.kHighsInf
        self.solver.changeColsBounds(resources, overruns, np.zeros(resources), np.full(resources, longest))
        self.solver.changeColsCost(resources, overruns, np.full(resources, overrun_cost or 0.0))
        present = np.arange(resources, resources + self.active.size, dtype=np.int32)
        self.solver.changeColsCost(present.size, present, -profit[self.active])

        bound, best_prices, value = np.inf, np.zeros(resources), -np.inf
        groups = table.groups
        self.solver.setOptionValue("simplex_strategy", _DUAL)
        for _ in range(ROUNDS_AT_MOST):
            self.solver.run()
            value = -self.solver.getInfo().objective_function_value
            duals = -np.asarray(self.solver.getSolution().row_dual)
            prices = np.maximum(duals[groups:], 0.0)
            reduced = profit - table.usage @ prices
            best = table.best_of_each_group(reduced)
            # Lagrange: the capacity at its prices, and each group's best way at these prices.
            most = reduced[best]
            proven = float(table.capacity @ prices + most.sum())
            if proven < bound:
                bound, best_prices = proven, prices
            if bound - value <= TOLERANCE * max(1.0, abs(value)):
                break
            new = best[(most - duals[:groups] > 1e-9) & ~self.is_active[best]]
            if not new.size:
                break
            self._add(new, profit)
            # The last answer is still feasible: from there it is a short way.
            if groups >= SAMPLED_FROM:
                self.solver.setOptionValue("simplex_strategy", _PRIMAL)
        share = np.asarray(self.solver.getSolution().col_value)[resources:]
        return value, Relaxation(best_prices, bound, self.active.copy(), share)

    def _add(self, columns: IntArray, profit: FloatArray) -> None:
        """Put columns into the program: a 1 in the group's row, the usage in the resources' rows."""
        table, count = self.table, columns.size
        usage = np.ascontiguousarray(table.usage)
        begins, rows, values = entries_of(table.group, usage, columns, table.groups)
        self.solver.addCols(
            count,
            -profit[columns],
            np.zeros(count),
            np.full(count, highspy.kHighsInf),
            len(rows),
            begins,
            rows,
            values,
        )
        self.active = np.concatenate([self.active, columns])
        self.is_active[columns] = True


_IDLE: list[highspy.Highs] = []
"""Solvers without a program: to make one takes longer than to solve a small program."""


def _idle_solver() -> highspy.Highs:
    try:
        return _IDLE.pop()
    except IndexError:
        return quiet_solver()


def quiet_solver() -> highspy.Highs:
    """A silent solver on one thread with a fixed seed: same program in, same answer out."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.silent()
    for option, value in (("threads", 1), ("parallel", "off"), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    return solver
