"""The integer program over the columns that can still belong to a better choice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import highspy
import numpy as np

from muster.schedulers.selection.knapsack.columns import ROUNDING, FloatArray, IntArray, Table
from muster.schedulers.selection.knapsack.relaxation import Relaxation, quiet_solver


@dataclass(frozen=True)
class Effort:
    """When to stop. All but `seconds` are deterministic; `seconds` is for live use only."""

    gap: float = 1e-4
    """Good enough: the bound exceeds the value by no more than this part of it."""
    nodes: int = 200
    """Of each branch and bound at most; 0 leaves it at the relaxation, floored and refilled."""
    seconds: float = np.inf
    """Of all branch and bound together."""


CORES = (100, 400)
"""Columns beside one a group in the first programs: they find a good choice, the last one proves it."""


def improve(
    table: Table, relaxation: Relaxation, incumbent: IntArray | None, effort: Effort
) -> tuple[IntArray | None, float, bool]:
    """A choice at least as good as the incumbent, a bound on all choices (scaled), and whether time ran out.

    A choice with column c has at most bound - (what c lacks to its group's best way at the prices): columns
    that lack more than bound - incumbent cannot improve it, so leaving them out loses nothing.
    """
    reduced = table.profit - table.usage @ relaxation.prices
    lacking = np.maximum.reduceat(reduced, table.starts)[table.group] - reduced
    ascending = np.sort(lacking)
    value = -np.inf if incumbent is None else float(table.profit[incumbent].sum())
    for core in CORES:
        most = ascending[min(table.groups + core, ascending.size) - 1]
        if incumbent is None or most >= relaxation.bound - value:
            break
        incumbent, _, took = _solve(table, np.flatnonzero(lacking <= most), incumbent, effort)
        value = float(table.profit[incumbent].sum())
        if relaxation.bound - value <= effort.gap * abs(value):
            return incumbent, relaxation.bound, False
        if took >= effort.seconds:
            return incumbent, relaxation.bound, True
        effort = replace(effort, seconds=effort.seconds - took)
    hopeful = np.flatnonzero(lacking <= relaxation.bound - value + ROUNDING)
    best, bound, took = _solve(table, hopeful, incumbent, effort)
    return best, min(relaxation.bound, max(bound, value)), took >= effort.seconds


def _solve(
    table: Table, columns: IntArray, incumbent: IntArray | None, effort: Effort
) -> tuple[IntArray | None, float, float]:
    """The best choice among the columns and the incumbent's, a bound on all choices among them, and its seconds.

    Whoever is given seconds and is out of them has taken no less.
    """
    if incumbent is not None:
        columns = np.union1d(columns, incumbent)
    alone = np.bincount(table.group[columns], minlength=table.groups)[table.group[columns]] == 1
    fixed, free = columns[alone], columns[~alone]
    if not free.size:
        return (
            (fixed, float(table.profit[fixed].sum()), 0.0) if table.fits(fixed) else (incumbent, -np.inf, 0.0)
        )

    solver = _program(table, free, table.capacity - table.usage[fixed].sum(axis=0))
    solver.setOptionValue("mip_rel_gap", effort.gap)
    solver.setOptionValue("mip_abs_gap", 0.0)
    solver.setOptionValue("mip_max_nodes", effort.nodes)
    solver.setOptionValue("time_limit", effort.seconds)
    if incumbent is not None:
        start = np.isin(free, incumbent).astype(np.float64)
        solver.setSolution(free.size, np.arange(free.size, dtype=np.int32), start)
    solver.run()

    status = solver.getModelStatus()
    took = effort.seconds if status == highspy.HighsModelStatus.kTimeLimit else solver.getRunTime()
    if status == highspy.HighsModelStatus.kInfeasible:
        return incumbent, -np.inf, took
    info = solver.getInfo()
    bound = float(table.profit[fixed].sum()) - info.mip_dual_bound
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return incumbent, bound, took
    taken = np.sort(np.concatenate([fixed, free[np.asarray(solver.getSolution().col_value) > 0.5]]))
    # The solver allows a millionth of the capacity too much; we do not.
    if taken.size != table.groups or not table.fits(taken):
        return incumbent, bound, took
    if incumbent is not None and table.profit[taken].sum() < table.profit[incumbent].sum():
        return incumbent, bound, took
    return taken, bound, took


def _program(table: Table, columns: IntArray, capacity: FloatArray) -> highspy.Highs:
    """Binary columns; a row a group (exactly one), a row a resource."""
    groups, row = np.unique(table.group[columns], return_inverse=True)
    resources, count = capacity.size, columns.size
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = count, groups.size + resources
    program.col_cost_ = -table.profit[columns]
    program.col_lower_, program.col_upper_ = np.zeros(count), np.ones(count)
    program.row_lower_ = np.concatenate([np.ones(groups.size), np.full(resources, -highspy.kHighsInf)])
    program.row_upper_ = np.concatenate([np.ones(groups.size), capacity])
    rows = np.empty((count, resources + 1), dtype=np.int32)
    rows[:, 0] = row
    rows[:, 1:] = np.arange(groups.size, groups.size + resources)
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = np.arange(0, rows.size + 1, resources + 1, dtype=np.int32)
    program.a_matrix_.index_ = rows.ravel()
    program.a_matrix_.value_ = np.hstack([np.ones((count, 1)), table.usage[columns]]).ravel()
    program.integrality_ = [highspy.HighsVarType.kInteger] * count
    solver = quiet_solver()
    solver.passModel(program)
    return solver
