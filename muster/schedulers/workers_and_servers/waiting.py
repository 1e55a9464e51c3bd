"""What waiting costs: a time-indexed relaxation of the whole run, and the profit of a size now beside a later start.

The time ahead is cut into slots that grow. A job starts in one slot, with one size, and holds its resources until its
end. The relaxation of this program (a knapsack with a capacity in each slot) gives prices: utility of one unit of a
resource during a slot. The profit of a size now is then

    utility(its end) - price of the later slots that it holds - max(0, utility - price of the best later start)

so a job that loses little by waiting makes room for one that loses much. Slots and sizes are limited by the number
of jobs: the work of a decision is bounded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.admission.knapsack import Columns, prices_of
from muster.schedulers.workers_and_servers.sizing_problem import Choices, SizingProblem
from muster.schedulers.workers_and_servers.waiting_core import (
    boundaries_of,
    charges,
    profits,
    spread,
    starts_ahead,
)
from muster.workload.sized import RESOURCES


class Charges(NamedTuple):
    """By entry, a size of a job."""

    usage: Floats
    """(entries, resources): `SizingProblem.by_set`, as all resources here."""
    now_left: Floats
    """Seconds until the end with this size from now on."""
    later_left: Floats
    """Seconds from a later start to the end."""
    is_held: Bools

    def at(self, entries: Ints) -> Charges:
        """Only these entries."""
        return Charges(
            self.usage[entries], self.now_left[entries], self.later_left[entries], self.is_held[entries]
        )


class Waiting(NamedTuple):
    """Prices of the time ahead, and what each job gains by its best later start."""

    hysteresis: float
    boundaries: Floats
    """(slots + 1,) seconds from now."""
    spent: Floats
    """(slots + 1, resources): what one unit costs from the end of the first slot until each boundary; below 0 before
    that end, because a job that ends earlier leaves the rest of the first slot to others."""
    unserved: Floats
    """(jobs,): utility of a start at the last boundary; every profit counts from there."""
    later: Floats
    """(jobs,): profit of the best start in a later slot, at least 0."""


def profit_beside_waiting(
    question: SizingProblem, choices: Choices, hysteresis: float
) -> tuple[Floats, Floats]:
    """The profit of each size now, above 0 because what would stay idle may be used; and what it is charged."""
    job, workers, servers, seconds = choices.job, choices.workers, choices.servers, choices.seconds
    usage, now_left, later_left, is_held = charges(
        question, job, workers, servers, seconds, hysteresis, len(RESOURCES)
    )
    charged = Charges(question.by_set(job, usage), now_left, later_left, is_held)
    few = spread(job, seconds, charged.is_held)
    ahead = _waiting(question, job[few], charged.at(few), hysteresis)
    return profits(question, job, charged, ahead), usage


def _waiting(question: SizingProblem, job: Ints, charged: Charges, hysteresis: float) -> Waiting:
    """Solve the relaxation for these sizes of the jobs."""
    usage, now_left, later_left, _ = charged
    total = question.capacity_by_set + question.fixed_usage.sum(axis=0)
    capacity = np.where(total > 0, total, np.inf)
    boundaries = boundaries_of(len(question), job, usage, later_left, capacity)
    slots = len(boundaries) - 1
    # One column a size and first slot.
    unserved, gain, held = starts_ahead(question, job, usage, now_left, later_left, boundaries)
    columns = Columns(np.repeat(job, slots), gain.ravel(), held, np.zeros(len(question), bool))
    prices = prices_of(columns, _capacity(question, boundaries).ravel())
    net = (gain.ravel() - held @ prices).reshape(-1, slots) if prices.any() else gain
    later = np.zeros(len(question))
    np.maximum.at(later, job, net[:, 1:].max(axis=1))
    # A whole slot costs its price; a part of it costs that part. The first slot is given out by the knapsack.
    spent = np.zeros((slots + 1, len(total)))
    np.cumsum(prices.reshape(slots, -1), axis=0, out=spent[1:])
    spent -= spent[1]
    return Waiting(hysteresis, boundaries, spent, unserved, later)


def _capacity(question: SizingProblem, boundaries: Floats) -> Floats:
    """(slots, resources): what is there, and what the jobs that may not change leave in the mean of each slot."""
    free_for = boundaries[1:] - np.maximum(question.fixed_until[:, None], boundaries[:-1])
    part = np.clip(free_for, 0.0, np.diff(boundaries)) / np.diff(boundaries)
    capacity: Floats = question.capacity_by_set + part.T @ question.fixed_usage
    return capacity
