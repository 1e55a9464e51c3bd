"""The integer program over the columns that can still belong to a better choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from muster.schedulers.admission.knapsack.columns import ROUNDING, FloatArray, IntArray, SolverTable
from muster.schedulers.admission.knapsack.relaxation import Relaxation, quiet_solver


@dataclass(frozen=True)
class SolverEffort:
    """When to stop. All but `seconds` are deterministic; `seconds` is for live use only."""

    gap: float = 1e-4
    """Good enough: the bound exceeds the value by no more than this part of it."""
    nodes: int = 200
    """Of each branch and bound at most; 0 leaves it at the relaxation, floored and refilled."""
    work: float = np.inf
    """Of all branch and bound together, in the unit of `Budget.check`."""
    seconds: float = np.inf
    """Of all branch and bound together."""


@dataclass
class Budget:
    """What is left for all programs of one search."""

    work: float
    seconds: float

    def check(self, columns: int, nodes: int) -> None:
        """Charge one check of the solver's limits: the size of its program, and a quarter of that below the root.

        The solver checks its limits at the same points each time it solves a program, so work is deterministic. A
        unit takes 1 to 5 microseconds.
        """
        self.work -= (columns + CHECK) * (TREE_CHECK if nodes > 0 else 1.0)

    @property
    def is_spent(self) -> bool:
        """Whether the search ends with the best choice found so far."""
        return self.work <= 0 or self.seconds <= 0


CHECK, TREE_CHECK = 20, 0.25
"""What a check costs beside the columns; the share of a check that one below the root costs. Fitted to CPU times."""


SEARCH = (
    ("mip_allow_restart", False),
    ("mip_detect_symmetry", False),
    ("mip_heuristic_effort", 0.0),
    ("mip_heuristic_run_feasibility_jump", False),
    ("mip_heuristic_run_rens", False),
    ("mip_heuristic_run_rins", False),
    ("mip_heuristic_run_root_reduced_cost", False),
)
"""The incumbent is good already: without these the solver proves the same optima sooner."""

CORES = (100, 400)
"""Columns beside one a group in the first programs: they find a good choice, the last one proves it."""


def improve(
    table: SolverTable, relaxation: Relaxation, incumbent: IntArray | None, effort: SolverEffort
) -> tuple[IntArray | None, float, bool]:
    """A choice at least as good as the incumbent, a bound on all choices (scaled), and whether time ran out.

    A choice with column c has at most bound - (what c lacks to its group's best way at the prices): columns
    that lack more than bound - incumbent cannot improve it, so leaving them out loses nothing.
    """
    budget = Budget(effort.work, effort.seconds)
    reduced = table.profit - table.usage @ relaxation.prices
    lacking = np.maximum.reduceat(reduced, table.starts)[table.group] - reduced
    ascending = np.sort(lacking)
    value = -np.inf if incumbent is None else float(table.profit[incumbent].sum())
    for core in CORES:
        most = ascending[min(table.groups + core, ascending.size) - 1]
        if incumbent is None or most >= relaxation.bound - value:
            break
        incumbent, _ = _solve(table, np.flatnonzero(lacking <= most), incumbent, effort, budget)
        value = float(table.profit[incumbent].sum())
        if budget.is_spent or relaxation.bound - value <= effort.gap * abs(value):
            return incumbent, relaxation.bound, budget.seconds <= 0
    hopeful = np.flatnonzero(lacking <= relaxation.bound - value + ROUNDING)
    best, bound = _solve(table, hopeful, incumbent, effort, budget)
    return best, min(relaxation.bound, max(bound, value)), budget.seconds <= 0


def _solve(
    table: SolverTable, columns: IntArray, incumbent: IntArray | None, effort: SolverEffort, budget: Budget
) -> tuple[IntArray | None, float]:
    """The best choice among the columns and the incumbent's, and a bound on all choices among them."""
    if incumbent is not None:
        columns = np.union1d(columns, incumbent)
    alone = np.bincount(table.group[columns], minlength=table.groups)[table.group[columns]] == 1
    fixed, free = columns[alone], columns[~alone]
    if not free.size:
        return (fixed, float(table.profit[fixed].sum())) if table.fits(fixed) else (incumbent, -np.inf)

    solver = _program(table, free, table.capacity - table.usage[fixed].sum(axis=0))
    if incumbent is not None:
        start = np.isin(free, incumbent).astype(np.float64)
        solver.setSolution(free.size, np.arange(free.size, dtype=np.int32), start)
    status = _run(solver, effort, budget)

    if status == highspy.HighsModelStatus.kInfeasible:
        return incumbent, -np.inf
    info = solver.getInfo()
    bound = float(table.profit[fixed].sum()) - info.mip_dual_bound
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return incumbent, bound
    taken = np.sort(np.concatenate([fixed, free[np.asarray(solver.getSolution().col_value) > 0.5]]))
    # The solver allows a millionth of the capacity too much; we do not.
    if taken.size != table.groups or not table.fits(taken):
        return incumbent, bound
    if incumbent is not None and table.profit[taken].sum() < table.profit[incumbent].sum():
        return incumbent, bound
    return taken, bound


def _run(solver: highspy.Highs, effort: SolverEffort, budget: Budget) -> highspy.HighsModelStatus:
    """Solve within the limits; the work and the seconds are taken from the budget."""
    solver.setOptionValue("mip_rel_gap", effort.gap)
    solver.setOptionValue("mip_abs_gap", 0.0)
    solver.setOptionValue("mip_max_nodes", effort.nodes)
    solver.setOptionValue("time_limit", budget.seconds)
    if budget.work < np.inf:
        columns = solver.getNumCol()

        def check(event: Any) -> None:
            budget.check(columns, event.data_out.mip_node_count)
            if budget.work <= 0:
                event.interrupt()

        solver.cbMipInterrupt += check
    solver.run()
    status = solver.getModelStatus()
    out_of_time = status == highspy.HighsModelStatus.kTimeLimit
    budget.seconds -= budget.seconds if out_of_time else solver.getRunTime()
    return status


def _program(table: SolverTable, columns: IntArray, capacity: FloatArray) -> highspy.Highs:
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
    for option, value in SEARCH:
        solver.setOptionValue(option, value)
    solver.passModel(program)
    return solver
