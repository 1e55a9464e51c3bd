"""How many GPUs each elastic job should have: the most worth that the GPUs of the cluster give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import GPU, MICRO, Bools, Floats, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.gangs import Gangs, forms_of
from muster.schedulers.contract import Jobs
from muster.schedulers.interruption import HORIZON_SECONDS

_HALVINGS = 40
_AT_MOST = 1.1
"""What an elastic job counts that is infinitely fast, where waiting counts 0 and its least size 0.1: as Sia has it."""
_ALL_SIZES = 16
"""With bounds closer than this, a job may have every size between them."""


@dataclass(frozen=True, eq=False)
class SizeOptions:
    """The numbers of GPUs that jobs may have, a row for each; the rows of a job follow each other, ascending."""

    at: Ints
    """Position of the job."""
    gpus: Ints
    worth: Floats
    """Weighted speed on the machines that suit it best, less what changing a running job loses."""


def is_elastic(jobs: Jobs) -> Bools:
    """Which jobs may have another number of whole GPUs than they ask for."""
    elastic: Bools = (jobs.min_gpus < jobs.max_gpus) & (jobs.gpu_milli == 1000) & (jobs.gpus > 0)
    return elastic


def present_sizes(jobs: Jobs) -> Ints:
    """What running elastic jobs hold, and what all others ask for."""
    held = np.rint(jobs.held_gpus).astype(np.int64)
    return np.where(is_elastic(jobs) & jobs.running & (held > 0), held, jobs.gpus)


def with_sizes(given: AllocationInput, gangs: Gangs, gpus: Ints) -> Gangs:
    """Return the jobs with these numbers of GPUs, and with choices that may be below their share.

    Where speeds by size are known otherwise than from models, the weights bring them in.
    """
    jobs = given.snapshot.jobs
    profiles = given.snapshot.resource_profiles.below_share
    records = profiles.sized(jobs.model, jobs.gpus, gpus)
    classes, demands = profiles.of(records, gpus, jobs.requested_per_gpu)
    at = np.arange(len(gpus))
    known, counts = _known_speeds(given, at, gpus), _counts(given, at, gpus)
    return gangs._replace(
        gpus=gpus,
        model=records,
        classes=classes,
        demands=demands,
        models=profiles.models,
        weight=gangs.weight * counts * (1.0 if known is None else known),
        forms=forms_of(given.snapshot, gpus),
    )


def options_of(given: AllocationInput, weight: Floats) -> SizeOptions:
    """Return the sizes of the ranked jobs that may be placed; a job that is not elastic has one."""
    jobs = given.snapshot.jobs
    ranked = given.ranked[given.opened.movable[given.ranked]]
    places, gpus = _every_size(given, ranked)
    at, present = ranked[places], present_sizes(jobs)
    fastest = _modelled_speeds(given, at, gpus)
    known = _known_speeds(given, at, gpus)
    fastest *= _counts(given, at, gpus)
    if known is not None:
        fastest *= known
        at, gpus, fastest = at[known > 0], gpus[known > 0], fastest[known > 0]
    changed = jobs.running[at] & (gpus != present[at])
    return SizeOptions(at, gpus, weight[at] * fastest * (1 - _lost_by_resize(given)[at] * changed))


def _lost_by_resize(given: AllocationInput) -> Floats:
    """Return the part of its work that a restart costs each job, if it goes on for as long as it has been here.

    A job of unknown length is as likely to end before as after twice its age.
    """
    jobs = given.snapshot.jobs
    ahead = np.minimum(given.snapshot.now - jobs.arrival, HORIZON_SECONDS)
    cost = np.where(jobs.running, jobs.interruption_cost, 0.0)
    lost: Floats = cost / np.maximum(cost + ahead, 1e-9)
    return lost


def _returns(speed_up: Floats) -> Floats:
    """Return what speeding a job up so many times counts, as a multiple of that many; what is learned may be wrong.

    It counts `_AT_MOST` less one over its root: the step from one GPU to two counts most, and the more a job has,
    the less more of them count. A job that runs at its least size counts 1.
    """
    faster = np.maximum(speed_up, 1e-9)
    counts: Floats = (_AT_MOST - faster**-0.5) / (_AT_MOST - 1) / faster
    return np.where(speed_up >= 1, counts, 1.0)


def _counts(given: AllocationInput, at: Ints, gpus: Ints) -> Floats:
    """Return `_returns` of how many times as fast jobs are known to be on so many GPUs as on their least; else 1."""
    counts: Floats = np.ones(len(at))
    if given.snapshot.size_speeds is None:
        return counts
    here, _, seconds = _least_known(given, at)
    counts[here] = _returns(seconds / _known_seconds(given, at[here], gpus[here]))
    return counts


def _modelled_speeds(given: AllocationInput, at: Ints, gpus: Ints) -> Floats:
    """Return the speeds of jobs on so many GPUs by their models, on the machines that suit them best."""
    jobs, profiles = given.snapshot.jobs, given.snapshot.resource_profiles.below_share
    records = profiles.sized(jobs.model[at], jobs.gpus[at], gpus)
    classes, demands = profiles.of(records, gpus, jobs.requested_per_gpu[at])
    fastest: Floats = demands.best_speed[:, given.gangs.kinds["gpus"] > 0].max(axis=1)[classes]
    return fastest


def _known_speeds(given: AllocationInput, at: Ints, gpus: Ints) -> Floats | None:
    """Return how fast jobs are known to go on so many GPUs, by what their models say of that; 0 where they do not run.

    Relative to the least size on which each runs. 1 where nothing is known of a job; None: of no job.
    """
    if given.snapshot.size_speeds is None:
        return None
    here, least, seconds = _least_known(given, at)
    now = _known_seconds(given, at, gpus)
    known: Floats = np.where(np.isnan(now), 1.0, 0.0)
    modelled = _modelled_speeds(given, at[here], least) / _modelled_speeds(given, at[here], gpus[here])
    known[here] = np.where(np.isfinite(now[here]), seconds / now[here] * modelled, 0.0)
    return known


def _least_known(given: AllocationInput, at: Ints) -> tuple[Ints, Ints, Floats]:
    """Return which of the jobs are known to run on some size, the least such size of each, and its seconds."""
    every, sizes = _every_size(given, at)
    seconds = _known_seconds(given, at[every], sizes)
    runs = np.flatnonzero(np.isfinite(seconds))
    _, first = np.unique(every[runs], return_index=True)
    least = runs[first]
    return every[least], sizes[least], seconds[least]


def _every_size(given: AllocationInput, at: Ints) -> tuple[Ints, Ints]:
    """Return all sizes that these jobs may have, ascending, each with the place of its job in `at`."""
    jobs = given.snapshot.jobs
    least, most, present = jobs.min_gpus, jobs.max_gpus, present_sizes(jobs)
    rigid = ~is_elastic(jobs)
    least, most = np.where(rigid, jobs.gpus, least), np.where(rigid, jobs.gpus, most)
    most = np.maximum(least, np.minimum(most, _most_gpus(given)))
    largest = int(given.gangs.kinds["gpus"].max())
    sizes = [_sizes(int(least[one]), int(most[one]), int(present[one]), largest) for one in at.tolist()]
    places = np.repeat(np.arange(len(at)), [len(one) for one in sizes])
    return places, np.array([size for one in sizes for size in one], np.int64)


def _most_gpus(given: AllocationInput) -> Ints:
    """Return on how many GPUs of the empty cluster each job has what it requests beside each of them."""
    nodes = given.snapshot.ledger.books.nodes
    usable = nodes["capacity"] - nodes["unavailable"]
    requested, kind = np.unique(given.snapshot.jobs.requested_per_gpu, axis=0, return_inverse=True)
    whole = usable[:, GPU] // MICRO
    most = np.zeros(len(requested), np.int64)
    for at, need in enumerate(requested):
        wanted = need > 0
        room = (usable[:, wanted] // need[wanted]).min(axis=1, initial=int(whole.max(initial=0)))
        most[at] = np.minimum(whole, room).sum()
    return most[kind.reshape(-1)]


def _known_seconds(given: AllocationInput, at: Ints, gpus: Ints) -> Floats:
    """Return the seconds of an iteration on as few machines as hold so many GPUs.

    inf where a job does not run, NaN where nothing is known.
    """
    snapshot, kinds = given.snapshot, given.gangs.kinds
    assert snapshot.size_speeds is not None
    machine = kinds[int(np.argmax(kinds["gpus"]))]
    gpu_type = snapshot.cluster.gpu_types[int(machine["gpu_type"])]
    nodes = -(-gpus // int(machine["gpus"]))
    seconds = snapshot.size_speeds.seconds_per_iteration(snapshot.jobs.index[at], gpus, nodes, gpu_type)
    return np.where(seconds > 0, seconds, np.where(np.isnan(seconds), np.nan, np.inf))


def _sizes(least: int, most: int, present: int, largest: int) -> list[int]:
    """All sizes between close bounds; between others powers of two, whole machines, the bounds and the present size."""
    if most - least < _ALL_SIZES:
        return list(range(least, most + 1))
    between = {2**power for power in range(most.bit_length())} | set(range(largest, most + 1, largest))
    return sorted({least, most, present} | {size for size in between if least <= size <= most})


def best_sizes(options: SizeOptions, gpus: int) -> Ints:
    """Return the rows taken, at most one for each job, with the most worth for so many GPUs in all.

    By the price of a GPU at which the jobs want no more than there are; then the rest goes where it gains most.
    """
    if not len(options.at):
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.diff(options.at, prepend=-1))
    low, high = 0.0, float((options.worth / options.gpus).max()) + 1e-9
    taken = _at_price(options, starts, low)
    if options.gpus[taken].sum() <= gpus:
        return taken
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if options.gpus[_at_price(options, starts, middle)].sum() <= gpus:
            high = middle
        else:
            low = middle
    return _with_rest(options, _at_price(options, starts, high), gpus)


def _at_price(options: SizeOptions, starts: Ints, price: float) -> Ints:
    """Return the best row of each job at a price of a GPU; jobs for which none is worth it have none."""
    profit = options.worth - price * options.gpus
    most = np.maximum.reduceat(profit, starts)
    count = np.diff(starts, append=len(profit))
    best = np.flatnonzero(profit == np.repeat(most, count))
    _, first = np.unique(options.at[best], return_index=True)
    rows: Ints = best[np.sort(first)]
    return rows[profit[rows] > 0]


def _with_rest(options: SizeOptions, taken: Ints, gpus: int) -> Ints:
    """Return the taken rows, some of them raised to a larger size of their job, the most worth for a GPU first."""
    row_of = np.full(int(options.at.max()) + 1, -1)
    row_of[options.at[taken]] = taken
    left = gpus - int(options.gpus[taken].sum())
    while left > 0:
        now = row_of[options.at]
        more = options.gpus - np.where(now >= 0, options.gpus[now], 0)
        gain = options.worth - np.where(now >= 0, options.worth[now], 0.0)
        better = np.flatnonzero((more > 0) & (more <= left) & (gain > 0))
        if not len(better):
            break
        best = int(better[np.argmax(gain[better] / more[better])])
        row_of[options.at[best]] = best
        left -= int(more[best])
    rows: Ints = np.sort(row_of[row_of >= 0])
    return rows
