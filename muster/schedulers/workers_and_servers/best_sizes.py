"""The sizes that are worth most together: at most one of each job, within what there is."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.admission.knapsack import Columns, KnapsackChoice, SolverEffort, choose
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem


def best_sizes(
    question: SizingProblem, job: Ints, profit: Floats, usage: Floats, effort: SolverEffort
) -> KnapsackChoice:
    """The knapsack's choice of these sizes, on all nodes and on each set of nodes to which jobs are bound."""
    columns = Columns(job, profit, question.by_set(job, usage), np.zeros(len(question), bool))
    return choose(columns, question.capacity_by_set, effort)
