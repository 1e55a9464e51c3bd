"""What waiting costs: a time-indexed relaxation of the whole run, and the profit of a size now beside a later start.

The time ahead is cut into slots that grow. A job starts in one slot, with one size, and holds its resources until its
end. The relaxation of this program (a knapsack with a capacity in each slot) gives prices: utility of one unit of a
resource during a slot. The profit of a size now is then

    utility(its end) - price of the later slots that it holds - max(0, utility - price of the best later start)

so a job that loses little by waiting makes room for one that loses much. Slots and sizes are limited by the number
of jobs: the work of a decision is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.cluster.portable_math import power
from muster.schedulers.admission.knapsack import Columns, prices_of
from muster.schedulers.workers_and_servers.sizes import utility
from muster.schedulers.workers_and_servers.sizing_problem import Choices, SizingProblem
from muster.workload.sized import RESOURCES

FIRST_SLOT_SECONDS = 600.0
MOST_SLOTS, FEWEST_SLOTS = 16, 3
SLOTS_OF_ALL_JOBS = 1200
"""Jobs times slots stay below this, where that leaves at least `FEWEST_SLOTS`."""
SIZES = 6
"""Sizes of one job in the relaxation: spread evenly from the fastest to the slowest, and the one it holds."""
PROGRESS = 1e-2
"""Utility beside the job's own, at a completion after 0 hours; it falls evenly to 0 at `PROGRESS_HOURS`. It decides
between jobs to which time no longer matters."""
PROGRESS_HOURS = 100.0
UNRATED_HOURS = 24.0
"""The utility of a job that states none is 1 at 0 hours and falls by 1 in this time. The loss per hour does not depend
on how long the job has waited: with a loss that shrinks, the newest job would always go first."""
FIRST_COME = 1e-3
"""The part by which the profit of the oldest job counts as larger than that of the newest."""
IDLE = 1e-4
"""Profit of a size that is worth less than a later start: it takes only what would stay idle."""


@dataclass(frozen=True, eq=False)
class Waiting:
    """Prices of the time ahead, and what each job gains by its best later start."""

    question: SizingProblem
    hysteresis: float
    boundaries: Floats
    """(slots + 1,) seconds from now."""
    spent: Floats
    """(slots + 1, RESOURCES): what one unit costs from the end of the first slot until each boundary; below 0 before
    that end, because a job that ends earlier leaves the rest of the first slot to others."""
    unserved: Floats
    """(jobs,): utility of a start at the last boundary; every profit counts from there."""
    later: Floats
    """(jobs,): profit of the best start in a later slot, at least 0."""

    def profit(self, job: Ints, workers: Ints, servers: Ints, seconds: Floats) -> Floats:
        """Of these sizes now; above 0 always, because what would stay idle may be used."""
        asked = self.question
        left = seconds_left(asked, job, workers, servers, seconds, self.hysteresis)
        usage = asked.usage(job, workers, servers)
        gain = worth(asked, job, left) - self.unserved[job]
        net: Floats = gain - (usage * _at(self.spent, self.boundaries, left)).sum(axis=1) - self.later[job]
        held = (asked.workers[job] > 0) & ~asked.changes(job, workers, servers)
        # At the prices of a relaxation several jobs are worth the same: those that run stay, then the oldest come.
        oldest = 1.0 - job / max(len(asked), 1)
        net *= 1.0 + FIRST_COME * oldest + self.hysteresis * held
        idle = IDLE * (1.0 + oldest) / (2.0 + left / 1800.0)
        return np.where(net > IDLE, net, idle)

    def is_idle_use(self, profit: Floats) -> Bools:
        """Which profits are those of sizes that only take what would stay idle."""
        idle: Bools = profit <= IDLE
        return idle


def waiting(question: SizingProblem, choices: Choices, hysteresis: float) -> Waiting:
    """Solve the relaxation for these sizes of the jobs."""
    few = _spread(question, choices)
    job, workers, servers = few.job, few.workers, few.servers
    usage = question.usage(job, workers, servers)
    now_left = seconds_left(question, job, workers, servers, few.seconds, hysteresis)
    was_running = question.workers[job] > 0
    later_left = question.remaining[job] * few.seconds + np.where(
        was_running, question.interruption_cost[job], 0.0
    )
    boundaries = _boundaries(question, job, usage, later_left)
    slots = len(boundaries) - 1
    unserved = np.full(len(question), -np.inf)
    np.maximum.at(unserved, job, worth(question, job, boundaries[-1] + later_left))
    # One column a size and first slot.
    ends = boundaries[None, :-1] + later_left[:, None]
    ends[:, 0] = now_left
    lengths = np.diff(boundaries)
    inside = np.minimum(ends[:, :, None], boundaries[1:]) - np.maximum(
        boundaries[:-1, None], boundaries[None, :-1]
    )
    part = np.clip(inside, 0.0, None) / lengths
    gain = worth(question, np.repeat(job, slots).reshape(-1, slots), ends) - unserved[job][:, None]
    held = (part[:, :, :, None] * usage[:, None, None, :]).reshape(len(job) * slots, -1)
    columns = Columns(np.repeat(job, slots), gain.ravel(), held, np.zeros(len(question), bool))
    prices = prices_of(columns, _capacity(question, boundaries).ravel()).reshape(slots, -1)
    net = (gain.ravel() - held @ prices.ravel()).reshape(-1, slots)
    later = np.zeros(len(question))
    np.maximum.at(later, job, net[:, 1:].max(axis=1))
    # A whole slot costs its price; a part of it costs that part. The first slot is given out by the knapsack.
    spent = np.vstack([np.zeros(len(RESOURCES)), np.cumsum(prices, axis=0)])
    spent -= spent[1]
    return Waiting(question, hysteresis, boundaries, spent, unserved, later)


def worth(question: SizingProblem, job: Ints, seconds: Floats) -> Floats:
    """Utility of a completion in so many seconds from now; see `PROGRESS` and `UNRATED_HOURS`."""
    completion = question.now - question.arrival[job] + seconds
    hours = completion / 3600.0
    rated = utility(completion, question.priority[job], question.urgency[job], question.target[job])
    own = np.where(np.isnan(question.priority[job]), 1.0 - hours / UNRATED_HOURS, rated)
    worth: Floats = own + PROGRESS * (1.0 - hours / PROGRESS_HOURS)
    return worth


def seconds_left(
    question: SizingProblem, job: Ints, workers: Ints, servers: Ints, seconds: Floats, hysteresis: float
) -> Floats:
    """Until the end with these sizes from now on; a change costs the interruption and `hysteresis` of what is left."""
    left = question.remaining[job] * seconds
    changed = question.changes(job, workers, servers)
    return np.where(changed, left * (1 + hysteresis) + question.interruption_cost[job], left)


def _spread(question: SizingProblem, choices: Choices) -> Choices:
    """At most `SIZES` sizes of each job and the one it holds."""
    order = np.lexsort((choices.seconds, choices.job))
    first = np.flatnonzero(np.diff(choices.job, prepend=-1))
    count = np.diff(np.append(first, len(order)))
    rank = np.arange(len(order)) - np.repeat(first, count)
    steps = np.maximum(np.repeat(count, count) - 1, 1) / (SIZES - 1)
    kept = np.zeros(len(order), bool)
    kept[order] = (rank == 0) | (np.floor(rank / steps) != np.floor((rank - 1) / steps))
    held = (question.workers[choices.job] > 0) & ~question.changes(
        choices.job, choices.workers, choices.servers
    )
    return choices.at(np.flatnonzero(kept | held))


def _boundaries(question: SizingProblem, job: Ints, usage: Floats, left: Floats) -> Floats:
    """Slots that grow by one factor, the first of `FIRST_SLOT_SECONDS`, until all work could be done."""
    slots = int(np.clip(SLOTS_OF_ALL_JOBS // max(len(question), 1), FEWEST_SLOTS, MOST_SLOTS))
    total = question.capacity + question.fixed_usage.sum(axis=0)
    capacity = np.where(total > 0, total, np.inf)
    least_area, shortest = np.full(len(question), np.inf), np.full(len(question), np.inf)
    np.minimum.at(least_area, job, (usage / capacity).max(axis=1) * left)
    np.minimum.at(shortest, job, left)
    some = np.isfinite(shortest)
    horizon = max(float(least_area[some].sum()), float(shortest[some].max(initial=0.0)))
    growth = _growth(horizon / FIRST_SLOT_SECONDS, slots)
    return np.concatenate([[0.0], np.cumsum(FIRST_SLOT_SECONDS * power(growth, np.arange(slots)))])


def _growth(total: float, slots: int) -> float:
    """The factor from 1 on with which 1 + growth + growth^2 + ... over the slots reaches the total."""
    low, high, powers = 1.0, max(total, 1.0), np.arange(slots)
    for _ in range(60):
        middle = (low + high) / 2
        enough = float((middle**powers).sum()) >= total
        low, high = (low, middle) if enough else (middle, high)
    return low


def _capacity(question: SizingProblem, boundaries: Floats) -> Floats:
    """(slots, RESOURCES): what is there, and what the jobs that may not change leave in the mean of each slot."""
    free_for = boundaries[1:] - np.maximum(question.fixed_until[:, None], boundaries[:-1])
    part = np.clip(free_for, 0.0, np.diff(boundaries)) / np.diff(boundaries)
    capacity: Floats = question.capacity + part.T @ question.fixed_usage
    return capacity


def _at(spent: Floats, boundaries: Floats, seconds: Floats) -> Floats:
    """(entries, RESOURCES) what one unit costs until these seconds; nothing more after the last boundary."""
    return np.stack(
        [np.interp(seconds, boundaries, spent[:, resource]) for resource in range(spent.shape[1])], axis=1
    )
