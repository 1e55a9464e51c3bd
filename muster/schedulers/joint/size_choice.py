"""Which size each job takes: those of most worth together for the GPUs that there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.admission.knapsack import NOTHING, Columns, choose
from muster.schedulers.gpu_limits import GpuLimits
from muster.schedulers.joint.modelled_speeds import TypedSizes
from muster.schedulers.workers_and_servers.smd import EXACT

_MANY, _FOR_MANY = 300, replace(EXACT, gap=1e-3)
"""From so many jobs on a choice is good enough that is within a thousandth of the best."""


@dataclass(frozen=True, eq=False)
class SizeOptions:
    """What jobs may have, a row for each; the rows of a job follow each other, ascending by size."""

    sizes: TypedSizes
    worth: Floats
    """Weighted speed in the best place on machines of the type, less what changing a running job loses."""

    def rows(self, kept: Ints | Bools) -> SizeOptions:
        """Return some of the rows."""
        return SizeOptions(self.sizes.rows(kept), self.worth[kept])

    def with_first(self, first: Bools) -> SizeOptions:
        """Return the same rows, those of some before all others: each is worth more for a GPU than any other row."""
        above = 100.0 * float(self.worth.max(initial=0.0)) * self.sizes.gpus.max(initial=1)
        return SizeOptions(self.sizes, self.worth + above * first)


class ChosenSizes(NamedTuple):
    """The rows taken, ascending, and what one more GPU of each type is worth; None: no knapsack was solved."""

    rows: Ints
    prices: Floats | None = None


def best_sizes(
    options: SizeOptions,
    types: Ints,
    gpus: Ints,
    limits: Sequence[GpuLimits] = (),
    shares: Sequence[GpuLimits] = (),
    near: Floats | None = None,
) -> ChosenSizes:
    """Return the rows taken, at most one for each job, with the most worth for so many GPUs of each type.

    On one type by the price of a GPU at which the jobs want no more than there are; then the rest goes where it gains
    most. On several types, and where that is beyond a limit, by a knapsack: no prices part jobs that are worth as much
    on each type. Groups have their shares first; what they leave goes to any of them. `near`: prices of before.
    """
    sizes = options.sizes
    if not len(sizes.at):
        return ChosenSizes(np.zeros(0, np.int64))
    starts = np.flatnonzero(np.diff(sizes.at, prepend=-1))
    if len(types) == 1:
        taken = _at_one_price(options, starts, int(gpus[0]))
        taken = _with_rest(options, taken, int(gpus[0] - sizes.gpus[taken].sum()))
        at, held = sizes.at[taken], sizes.gpus[taken]
        if all(limit.allows(at, held) for limit in (*limits, *shares)):
            return ChosenSizes(taken)
    chosen = _by_knapsack(options, types, gpus, (*limits, *shares), near=near)
    if not shares:
        return chosen
    rows = np.flatnonzero(_no_less(sizes, chosen.rows))
    before = np.searchsorted(rows, chosen.rows)
    more = _by_knapsack(options.rows(rows), types, gpus, limits, before, near=chosen.prices)
    return chosen._replace(rows=rows[more.rows])


def _no_less(sizes: TypedSizes, taken: Ints) -> Bools:
    """Which rows have no fewer GPUs than the taken one of their job, of the same type, or are of another job."""
    row_of = np.full(int(sizes.at.max()) + 1, NOTHING)
    row_of[sizes.at[taken]] = taken
    row = row_of[sizes.at]
    same = (sizes.gpus >= sizes.gpus[row]) & (sizes.gpu_type == sizes.gpu_type[row])
    no_less: Bools = (row == NOTHING) | same
    return no_less


def _by_knapsack(
    options: SizeOptions,
    types: Ints,
    gpus: Ints,
    limits: Sequence[GpuLimits],
    before: Ints | None = None,
    *,
    near: Floats | None,
) -> ChosenSizes:
    """Return the rows of most worth within GPUs and limits; jobs of which a row was taken before have one."""
    sizes = options.sizes
    starts = np.flatnonzero(np.diff(sizes.at, prepend=-1))
    of_type = np.where(sizes.gpu_type[:, None] == types, sizes.gpus[:, None], 0)
    usage = np.hstack([of_type, *(limit.usage(sizes.at, sizes.gpus) for limit in limits)])
    capacity = np.concatenate([gpus, *(limit.room for limit in limits)]).astype(np.float64)
    group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(sizes.at)))
    binds = np.isfinite(capacity)
    must, incumbent = np.zeros(len(starts), np.bool_), None
    if before is not None:
        must[group[before]] = True
        incumbent = np.full(len(starts), NOTHING)
        incumbent[group[before]] = before
    columns = Columns(group, options.worth, usage[:, binds].astype(np.float64), must)
    many, prices = len(starts) >= _MANY, None
    if many and near is not None and len(near) == len(types):  # Else a type of GPU came.
        prices = np.concatenate([near, np.zeros(len(capacity) - len(types))])[binds]
    choice = choose(columns, capacity[binds], _FOR_MANY if many else EXACT, incumbent, prices)
    return ChosenSizes(np.sort(choice.chosen[choice.chosen != NOTHING]), choice.prices[: len(types)])


def _at_one_price(options: SizeOptions, starts: Ints, gpus: int) -> Ints:
    """Return the best row of each job at the lowest price of a GPU at which they want no more than there are.

    A job for which no row is worth it has none.
    """
    job, row, more, dense = _steps(options, starts)
    order = np.argsort(-dense, kind="stable")
    too_many = np.flatnonzero(np.cumsum(more[order]) > gpus)
    if len(too_many):
        taken = dense > dense[order[too_many[0]]]
        job, row = job[taken], row[taken]
    row_of = np.full(len(starts), NOTHING)
    row_of[job] = row  # the last of each job
    rows: Ints = row_of[row_of != NOTHING]
    return rows


def _steps(options: SizeOptions, starts: Ints) -> tuple[Ints, Ints, Ints, Floats]:
    """Return the steps in which jobs grow as the price of a GPU falls, those of a job in order.

    For each the number of the job, its row, the GPUs that it adds and the price up to which they are worth it: each
    step is the one that gains most for a GPU.
    """
    gpus, worth, counts = options.sizes.gpus, options.worth, np.diff(starts, append=len(options.worth))
    of = np.repeat(np.arange(len(starts)), counts)
    held, valued = np.zeros(len(starts), np.int64), np.zeros(len(starts))
    price = np.full(len(starts), np.inf)
    found = []
    while True:
        more, gain = gpus - held[of], worth - valued[of]
        dense = np.where((more > 0) & (gain > 0), gain / np.maximum(more, 1), 0.0)
        most = np.maximum.reduceat(dense, starts)
        best = np.flatnonzero((dense == most[of]) & (dense > 0))
        if not len(best):
            break
        row = best[np.diff(of[best], append=-1) != 0]  # the largest of each job
        job = of[row]
        price[job] = np.minimum(price[job], most[job])
        found.append((job, row, more[row], price[job]))
        held[job], valued[job] = gpus[row], worth[row]
    if not found:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing, np.zeros(0)
    job, row, step, prices = (np.concatenate(each) for each in zip(*found, strict=True))
    return job, row, step, prices


def _with_rest(options: SizeOptions, taken: Ints, left: int) -> Ints:
    """Return the taken rows, some of them raised to a better row of their job, the most worth for a GPU first."""
    sizes = options.sizes
    row_of = np.full(int(sizes.at.max()) + 1, -1)
    row_of[sizes.at[taken]] = taken
    while left > 0:
        now = row_of[sizes.at]
        more = sizes.gpus - np.where(now >= 0, sizes.gpus[now], 0)
        gain = options.worth - np.where(now >= 0, options.worth[now], 0.0)
        better = np.flatnonzero((more > 0) & (more <= left) & (gain > 0))
        if not len(better):
            break
        best = int(better[np.argmax(gain[better] / more[better])])
        row_of[sizes.at[best]] = best
        left -= int(more[best])
    rows: Ints = np.sort(row_of[row_of >= 0])
    return rows
