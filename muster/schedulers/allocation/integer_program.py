"""An integer program in the making, column by column and row by row, for the solver HiGHS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import highspy
import numpy as np

from muster.schedulers.admission.knapsack.relaxation import quiet_solver


@dataclass
class IntegerProgram:
    """Columns and rows so far; the profit of all columns is maximized."""

    cost: list[float] = field(default_factory=list)
    most: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    row_most: list[float] = field(default_factory=list)
    row_least: list[float] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    """Row, column and factor."""

    def column(self, profit: float, most: float, whole: bool = False) -> int:
        """Add a variable from 0 to `most`."""
        self.cost.append(-profit)
        self.most.append(most)
        self.whole.append(whole)
        return len(self.cost) - 1

    def row(self, least: float, most: float, factors: Mapping[int, float] | None = None) -> int:
        """Add a constraint, with the factors of some columns."""
        self.row_least.append(least)
        self.row_most.append(most)
        number = len(self.row_most) - 1
        self.entries += [(number, column, factor) for column, factor in (factors or {}).items()]
        return number

    def solver(self) -> highspy.Highs:
        """Return a solver that holds the program; not solved yet."""
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(self.cost), len(self.row_most)
        program.col_cost_, program.col_lower_ = np.array(self.cost), np.zeros(len(self.cost))
        program.col_upper_ = np.array(self.most)
        program.row_lower_, program.row_upper_ = np.array(self.row_least), np.array(self.row_most)
        rows, columns, values = (np.array(part) for part in zip(*self.entries, strict=True))
        order = np.lexsort((rows, columns))
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        starts = np.searchsorted(columns[order], np.arange(program.num_col_ + 1))
        program.a_matrix_.start_ = starts.astype(np.int32)
        program.a_matrix_.index_ = rows[order].astype(np.int32)
        program.a_matrix_.value_ = values[order]
        kinds = highspy.HighsVarType
        program.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in self.whole]
        solver = quiet_solver()
        solver.passModel(program)
        return solver
