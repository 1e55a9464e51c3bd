"""From a fractional choice to a whole one: floor, repair what does not fit, refill what is left."""

from __future__ import annotations

import numpy as np

from muster.schedulers.admission.knapsack.columns import ROUNDING, FloatArray, IntArray, SolverTable
from muster.schedulers.admission.knapsack.columns_core import given_out, served_in_order
from muster.schedulers.admission.knapsack.relaxation import Relaxation

WHOLE = 1 - 1e-6
_NEAR = 0.02
"""Prices may be near at which no more than such a part of the profit is missing before what is left is given out."""


def floor(table: SolverTable, relaxation: Relaxation) -> IntArray | None:
    """The groups that the relaxation serves whole keep their way, the few others take their cheapest one.

    A vertex has at most as many split groups as resources. None if groups that must choose do not fit so.
    """
    choice = table.cheapest.copy()
    whole = relaxation.active[relaxation.share >= WHOLE]
    choice[table.group[whole]] = whole
    return choice if table.fits(choice) else _repaired(table, choice)


def served_at(table: SolverTable, prices: FloatArray, bound: float) -> IntArray | None:
    """Give the groups their best ways at these prices, those first that gain most, as far as there is enough.

    The others take their cheapest ones, and what is left is given out. None if those together do not fit, and where so
    much less is served than the bound at these prices that they cannot be near.
    """
    if not table.fits(table.cheapest):
        return None
    reduced = table.profit - table.usage @ prices
    best = table.best_of_each_group(reduced)
    order = np.argsort(reduced[table.cheapest] - reduced[best], kind="stable")
    usage = np.ascontiguousarray(table.usage)
    some = served_in_order(table.group, usage, table.capacity, table.cheapest, best[order], ROUNDING)
    if (1 - _NEAR) * bound > table.value(some):
        return None
    return refilled(table, some, prices)


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
    score = table.profit - table.usage @ prices
    usage = np.ascontiguousarray(table.usage)
    return given_out(table.group, table.profit, usage, table.capacity, choice, score, ROUNDING)
