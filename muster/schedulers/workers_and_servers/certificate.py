"""How far a choice of sizes is from the best one: in one measure for every scheduler that sizes jobs (SMD)."""

from __future__ import annotations

import numpy as np

from muster.schedulers.admission.knapsack import FAST
from muster.schedulers.contract import Decision, Snapshot, State
from muster.schedulers.workers_and_servers.best_sizes import best_sizes
from muster.schedulers.workers_and_servers.interval import PeriodicScheduler
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from muster.schedulers.workers_and_servers.task_placement import held_sizes


def certified(scheduler: PeriodicScheduler, snapshot: Snapshot, state: State) -> tuple[Decision, State]:
    """The scheduler's plan; at the end of an interval with what it is worth and the most that was possible.

    The measure is the jobs' utility as `SizingProblem.profit` has it: true layers, restarts and no hysteresis,
    whatever the scheduler itself knows or weighs; under its own accounting.
    """
    if not scheduler.is_due(snapshot, state):
        return scheduler.decide(snapshot, state)
    question = scheduler.question(snapshot, layers_known=True)
    decision, after = scheduler.decide(snapshot, state)
    if after["open_ended"]:  # What the sizes are worth falls while they stay as they are.
        decision = decision._replace(next_wake=after["next"], stable_until=after["next"])
    with snapshot.transaction() as transaction:
        transaction.try_out(decision.changes)
        workers, servers = held_sizes(snapshot.ledger.books, snapshot.table.asked, snapshot.jobs.index)
    return decision._replace(value=question.value(workers, servers), bound=bound_of(question)), after


def bound_of(question: SizingProblem) -> float:
    """No sizes that fit the capacity together are worth more: the outer problem's relaxation.

    Pinned jobs keep their sizes, even where their reservations exceed a capacity that has shrunk.
    """
    if question.pinned.any():
        free = ~question.pinned
        kept = question.value(np.where(free, 0, question.workers), np.where(free, 0, question.servers))
        return kept + bound_of(question.beside_pinned())
    pairs = question.choices
    profit = question.profit(pairs.job, pairs.workers, pairs.servers, pairs.seconds)
    usage = question.usage(pairs.job, pairs.workers, pairs.servers)
    return best_sizes(question, pairs.job, profit, usage, FAST).bound
