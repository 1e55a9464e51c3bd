"""From a fractional choice to a whole one: floor, repair what does not fit, refill what is left."""

from __future__ import annotations

import numpy as np

from muster.schedulers.admission.knapsack.columns import ROUNDING, FloatArray, IntArray, SolverTable
from muster.schedulers.admission.knapsack.relaxation import Relaxation

WHOLE = 1 - 1e-6


def floor(table: SolverTable, relaxation: Relaxation) -> IntArray | None:
    """The groups that the relaxation serves whole keep their way, the few others take their cheapest one.

    A vertex has at most as many split groups as resources. None if groups that must choose do not fit so.
    """
    choice = table.best_of_each_group(-table.usage.sum(axis=1))
    whole = relaxation.active[relaxation.share >= WHOLE]
    choice[table.group[whole]] = whole
    return choice if table.fits(choice) else _repaired(table, choice)


def _repaired(table: SolverTable, choice: IntArray) -> IntArray | None:
    """Move groups to other ways, the least profit lost for the overrun relieved first, until all fits."""
    choice = choice.copy()
    for _ in range(table.groups):
        overrun = table.usage[choice].sum(axis=0) - table.capacity
        if np.all(overrun <= ROUNDING):
            return choice
        current = choice[table.group]
        before = np.maximum(overrun, 0.0)
        relief = before.sum() - np.maximum(overrun + table.usage - table.usage[current], 0.0).sum(axis=1)
        loss = table.profit[current] - table.profit
        helps = np.flatnonzero(relief > ROUNDING)
        if not helps.size:
            return None
        move = helps[np.argmin(loss[helps] / relief[helps])]
        choice[table.group[move]] = move
    return None


def refilled(table: SolverTable, choice: IntArray, prices: FloatArray) -> IntArray:
    """Give what is left to the groups that gain from it, until none does; the better of two orders."""
    by_gain = _refilled_in_order(table, choice, np.zeros_like(prices))
    by_reduced_profit = _refilled_in_order(table, choice, prices)
    better = table.profit[by_reduced_profit].sum() > table.profit[by_gain].sum()
    return by_reduced_profit if better else by_gain


def _refilled_in_order(table: SolverTable, choice: IntArray, prices: FloatArray) -> IntArray:
    choice = choice.copy()
    score = table.profit - table.usage @ prices
    everything = np.arange(table.group.size)
    candidates = _gainful(table, choice, everything)
    while candidates.size:
        # A move only shrinks what is left, mostly: look again at the others when these are used up.
        while candidates.size:
            current = choice[table.group[candidates]]
            move = candidates[np.argmax(score[candidates] - score[current])]
            choice[table.group[move]] = move
            candidates = _gainful(table, choice, candidates)
        candidates = _gainful(table, choice, everything)
    return choice


def _gainful(table: SolverTable, choice: IntArray, columns: IntArray) -> IntArray:
    """Those of the columns that have more profit than their group's present one and fit in what is left."""
    left = table.capacity - table.usage[choice].sum(axis=0)
    current = choice[table.group[columns]]
    better = table.profit[columns] > table.profit[current] + ROUNDING
    columns, current = columns[better], current[better]
    return columns[np.all(table.usage[columns] - table.usage[current] <= left + ROUNDING, axis=1)]
