"""joint: which jobs run, what each gets beside its GPUs and where it runs, chosen together.

A second of a job's progress counts its GPUs, and less the more GPUs the jobs before it in the order ask for. What all
jobs make of it in a second, less the price of changes, is the worth of a plan (`allocation.worth`). A job that costs
the others more than it is worth waits, also beside idle GPUs: where memory is scarce, few jobs at full speed do more
than many starved ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import WHOLE, Bools, Floats, Ints
from muster.cluster.portable_math import power
from muster.cluster.resources import BUILT_IN_COUNT
from muster.schedulers.allocation.draft_allocator import AllocationInput, DraftAllocator
from muster.schedulers.allocation.fair_share import least_fair_demand
from muster.schedulers.allocation.fair_share_core import place_missing
from muster.schedulers.allocation.gangs import Gangs, gangs_of, places_differ
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.resource_fill import fill_all
from muster.schedulers.allocation.worth import REACHED, Worth
from muster.schedulers.contract import Proposal, Snapshot
from muster.schedulers.honours import (
    BATCH,
    CPUS_AND_MEMORY,
    EVEN_GANGS,
    FEWER_GPUS,
    SIZES,
    WORKERS_AND_SERVERS,
)
from muster.schedulers.joint.assured import weight_of_assured
from muster.schedulers.joint.for_running import for_running
from muster.schedulers.joint.for_shares import serve_by_stopping, serve_passed, waiting_shares
from muster.schedulers.joint.found_places import as_found, as_placed, worth_less
from muster.schedulers.joint.gang_shares import share_with_gangs
from muster.schedulers.joint.joint_core import place_jointly
from muster.schedulers.joint.modelled_speeds import ANY_TYPE, TypedSizes
from muster.schedulers.joint.node_limits import limits_of_nodes
from muster.schedulers.joint.nothing_to_gain import nothing_to_gain
from muster.schedulers.joint.on_network import plans_on_network
from muster.schedulers.joint.placed_again import PlacedAgain
from muster.schedulers.joint.remembered import NOTHING, Remembered
from muster.schedulers.joint.servers import gpus_of_workers, jobs_of_one_size, place_sized
from muster.schedulers.joint.size_choice import SizeOptions
from muster.schedulers.joint.sizes import (
    chooses_type,
    gains_from_type,
    keeps_size,
    learns_as_it_grows,
    options_of,
    present_sizes,
    sizes_for_all,
    with_sizes,
)
from muster.schedulers.joint.slow_places import slow_on_their_nodes
from muster.schedulers.joint.within_limits import beside_running, goes_on, within_limits
from muster.schedulers.reasons import NO_GPUS, NO_PLACE, NOT_SELECTED, OUTRANKED, PLACED, REASONS

_NOT_CHOSEN = 0.5
"""What a rigid job counts that does not fit beside those before it, by GPUs.

A large gang fills what they leave idle only where it is worth twice what it displaces.
"""
_NOT_CHOSEN_BY_GPUS = 0.1
"""What such a job counts where only GPUs are short: a gang of eight never stops one of those before it."""
_POWER_WHERE_JOBS_ARE_KEPT = 0.75
"""The power of its GPUs that a job counts under an order that stops none.

A gang that runs there keeps jobs of one GPU waiting until it ends; so eight of them count 1.7 times a gang of eight.
"""
_SCARCEST = 4.0
"""A resource of which the jobs want more than so many times all there is counts as no scarcer than that."""
_SPEED_UP = 0.75
"""The power of its GPUs that an elastic job's speed is taken to be where the order is weighed.

Where all jobs follow such a law, the best shares are those of heSRPT (Berg, Vesilo and Harchol-Balter 2020). With
c = 1 / (1 - power), a second of the work of a job with k elastic jobs not before it counts `(k^c - (k-1)^c)^(1/c)`,
nearly in proportion to that power of k.
"""
_TIMES_SIZED = 3
"""How often sizes are chosen: again where a size found no place, or a slow one, and is worth less for that."""
_TIMES_BESIDE_SIZED = 3
"""How often workers and servers are chosen at most: again where they made room for jobs that find no place."""
_WORK_PER_CHANGE = 1.0
"""Seconds of work before another size or type of GPU, for each second that it costs."""


_FOR_GPUS = np.isin(np.arange(len(REASONS)), (NO_GPUS, OUTRANKED, NO_PLACE))
"""By reason: whether a job waits for the GPUs that it needs."""


@dataclass(frozen=True)
class Joint(DraftAllocator):
    """Which jobs run, how much each gets and where, chosen together by what all make of it, less what changes cost."""

    name: ClassVar[str] = "joint"
    spares_running: ClassVar[bool] = True
    chooses_sizes: ClassVar[bool] = True
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY | {
        SIZES,
        FEWER_GPUS,
        BATCH,
        WORKERS_AND_SERVERS,
        EVEN_GANGS,
    }

    def settle(self, snapshot: Snapshot, proposal: Proposal) -> bool:
        """Return whether no job waits and none would be faster: all stay as they are.

        Elastic jobs and those without GPUs are left to `allocate`, and so are jobs that may move on a network.
        """
        jobs, stops_jobs = snapshot.jobs, proposal.stops_jobs
        if jobs.waiting.any() or snapshot.size_speeds is not None or not jobs_of_one_size(snapshot).all():
            return False
        if (jobs.elastic | (jobs.gpus == 0)).any() or (stops_jobs and places_differ(snapshot, jobs.gpus)):
            return False
        return nothing_to_gain(snapshot.ledger.books, jobs.index, gangs_of(snapshot), stops_jobs)

    def allocate(self, snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools) -> None:
        """Write the draft; where free GPUs would do for a job that waits, the reason is that others were worth more.

        Any nodes that it may use would do for a gang that requests nothing beside its GPUs and may be on any number.
        """
        jobs = snapshot.jobs
        rest = jobs_of_one_size(snapshot)
        if not rest.all():
            self._allocate_beside_sized(snapshot, proposal, ranked, chosen, rest)
            return
        mark, remembered = proposal.transaction.mark(), proposal.remembered
        super().allocate(snapshot, proposal, ranked, chosen)
        if serve_passed(snapshot, proposal, ranked, chosen, mark):
            mark, proposal.remembered = proposal.transaction.mark(), remembered
            super().allocate(snapshot, proposal, ranked, chosen)
        if self._stops_for_shares(snapshot, proposal, ranked, chosen, mark):
            proposal.remembered = remembered
            super().allocate(snapshot, proposal, ranked, chosen)
        if jobs.elastic.any():
            waits = jobs.elastic & _FOR_GPUS[proposal.reasons]
            proposal.reason_a[waits] = jobs.min_gpus[waits]
            enough = waits & (proposal.reason_a <= proposal.reason_b)
            proposal.reasons[enough & (proposal.reasons == NO_GPUS)] = NO_PLACE
        free_gpus = snapshot.table.node_allowed @ snapshot.ledger.books.nodes["free_gpus"]
        anywhere = (jobs.gpus > 0) & (jobs.exact_nodes == 0) & ~jobs.requested_per_gpu.any(axis=1)
        declined = (
            (proposal.reasons == NO_PLACE) & anywhere & (proposal.reason_a <= free_gpus[jobs.constraint])
        )
        proposal.reasons[declined] = NOT_SELECTED
        proposal.reason_a[declined] = proposal.reason_b[declined] = 0.0

    def _stops_for_shares(
        self, snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools, mark: int
    ) -> bool:
        """Return whether the plan is to be made again: running jobs may stop for chosen shares of a GPU it left out.

        What came after the mark is undone then, and these jobs have stopped.
        """
        shares = waiting_shares(snapshot, proposal, ranked[chosen[ranked]])
        if not len(shares) or not proposal.stops_jobs:
            return False
        jobs, pinned = snapshot.jobs, self.pinned(snapshot, proposal)
        weight = _weights(snapshot, ranked, chosen, proposal.stops_jobs, _NOT_CHOSEN_BY_GPUS)
        weight = weight_of_assured(weight, proposal.assured)
        may_stop = jobs.running & ~chosen & ~pinned & (jobs.gpu_milli == WHOLE)
        others = ranked[(may_stop & (weight < weight[shares].max()))[ranked]][::-1]
        if not len(others):
            return False
        proposal.transaction.undo(mark)
        serve_by_stopping(snapshot, proposal, shares, others, weight)
        return True

    def _allocate_beside_sized(
        self, snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools, rest: Bools
    ) -> None:
        """Choose workers and servers, then allocate the rest beside them.

        Where they made room for jobs that then find no place, they are chosen again without these.
        """
        weight = _weights(snapshot, ranked, chosen, proposal.stops_jobs)
        mark, remembered, in_vain = proposal.transaction.mark(), proposal.remembered, np.zeros(0, np.int64)
        for attempt in range(_TIMES_BESIDE_SIZED):
            proposal.transaction.undo(mark)
            proposal.remembered = remembered
            if attempt == _TIMES_BESIDE_SIZED - 1:
                in_vain = np.flatnonzero(rest & snapshot.jobs.waiting)
            awaited = place_sized(snapshot, proposal, ranked[~np.isin(ranked, in_vain)], weight)
            if rest.any():
                self._allocate_rest(snapshot, proposal, ranked, chosen, rest)
            unplaced = awaited[proposal.reasons[awaited] != PLACED]
            if not len(unplaced):
                break
            in_vain = np.union1d(in_vain, unplaced)

    def _allocate_rest(
        self, snapshot: Snapshot, proposal: Proposal, ranked: Ints, chosen: Bools, rest: Bools
    ) -> None:
        """Allocate beside the jobs whose workers and servers have their places."""
        sized = np.flatnonzero(~rest)
        held = gpus_of_workers(snapshot, sized)
        part = replace(
            proposal,
            reasons=proposal.reasons[rest],
            reason_a=proposal.reason_a[rest],
            reason_b=proposal.reason_b[rest],
            assured=proposal.assured[rest],
            pinned=None if proposal.pinned is None else proposal.pinned[rest],
            limits=tuple(limit.beside(sized, held).at(rest) for limit in proposal.limits),
            shares=tuple(share.beside(sized, held).at(rest) for share in proposal.shares),
        )
        position = np.cumsum(rest) - 1
        of_rest = position[ranked[rest[ranked]]]
        self.allocate(replace(snapshot, jobs=snapshot.jobs.at(rest)), part, of_rest, chosen[rest])
        proposal.reasons[rest], proposal.notes = part.reasons, part.notes
        proposal.reason_a[rest], proposal.reason_b[rest] = part.reason_a, part.reason_b

    def least_per_gpu(self, snapshot: Snapshot) -> Ints:
        """Return the least that was measured of each job's model, or its request."""
        return least_fair_demand(snapshot, snapshot.resource_profiles.below_share)

    def may_change_from(self, snapshot: Snapshot) -> Floats:
        """Return when each running job may be interrupted.

        A job may have another size or another type of GPU once it has worked for as long as that costs it: it learns
        its speed, and starts where there is room and not where it is fast. So may one that is slow on its nodes. One
        that has to learn its speed before it may grow further may change as soon as it has.
        """
        jobs, until = snapshot.jobs, snapshot.jobs.protected_until
        if not (until > snapshot.now).any():
            return until
        may_change = jobs.elastic | gains_from_type(snapshot) | slow_on_their_nodes(snapshot)
        if not may_change.any():
            return until
        soon = np.where(
            learns_as_it_grows(snapshot), jobs.protected_for(0.0), jobs.protected_for(_WORK_PER_CHANGE)
        )
        return np.where(may_change, soon, until)

    def choose_draft(self, given: AllocationInput) -> PlacementDraft:
        """Return the draft that is worth most: running jobs stay and others join, or sizes and places change."""
        jobs, stays = given.snapshot.jobs, goes_on(given.snapshot) & ~given.opened.movable
        ranked, limits = within_limits(jobs, given.ranked, given.proposal.limits, stays)
        if len(ranked) < len(given.ranked):
            given.barred[np.setdiff1d(given.ranked, ranked)] = True
        shares = beside_running(jobs, given.proposal.shares, stays)
        given = replace(given, ranked=ranked)
        snapshot = given.snapshot
        has_choice = snapshot.jobs.elastic | chooses_type(snapshot)
        by_gpus = not has_choice.any() and _only_gpus_are_short(given)
        not_chosen = _NOT_CHOSEN_BY_GPUS if by_gpus else _NOT_CHOSEN
        weight = _weights(snapshot, given.ranked, given.chosen, given.stops_jobs, not_chosen)
        weighted = given.gangs._replace(weight=weight_of_assured(weight, given.proposal.assured))
        if not (given.opened.movable & has_choice).any():
            sizes = present_sizes(given)._replace(gpu_type=np.full(len(snapshot.jobs), ANY_TYPE))
            everyone = np.ones(len(sizes.at), np.bool_)
            return _best_draft(given, with_sizes(given, weighted, sizes), sizes, everyone)[1]
        every = options = options_of(given, weight)
        limits, again = [*limits, *limits_of_nodes(given)], True
        tried: list[tuple[float, PlacementDraft]] = []
        while again and len(tried) < _TIMES_SIZED:
            sizes, wanted = sizes_for_all(given, options, limits, shares)
            gangs = with_sizes(given, weighted, sizes)
            tried.append(_best_draft(given, gangs, sizes, wanted))
            found = as_found(given, gangs, sizes, wanted, tried[-1][1])
            again = found.calls_for_others(sizes, given.opened.gpus)
            options = worth_less(options, sizes.gpu_type, found)
        if not given.stops_jobs and (again or _best(tried)[0] == -inf):
            tried.append(_beside_running(given, weighted, every))
        return _best(tried)[1]


def _beside_running(
    given: AllocationInput, weighted: Gangs, options: SizeOptions
) -> tuple[float, PlacementDraft]:
    """Return the best draft in which all running jobs keep their GPUs, with its worth."""
    jobs = given.snapshot.jobs
    running = goes_on(given.snapshot)
    opened = given.keeping(running)
    opened.fixed[running & opened.movable] = True
    opened.movable[running] = False
    ranked, limits = within_limits(jobs, given.ranked, given.proposal.limits, running)
    given = replace(given, opened=opened, ranked=ranked)
    limits = [*limits, *limits_of_nodes(given)]
    sizes, wanted = sizes_for_all(given, options.rows(~running[options.sizes.at]), limits, ())
    return _best_draft(given, with_sizes(given, weighted, sizes), sizes, wanted)


def _best_draft(
    given: AllocationInput, gangs: Gangs, sizes: TypedSizes, wanted: Bools
) -> tuple[float, PlacementDraft]:
    """Return the draft for jobs of these sizes that is worth most, with its worth.

    Where a resize restarts nothing and places are alike, its nodes are then shared again with gangs. Under an order
    that stops no job, a draft is worth nothing in which a running job has no place.
    """
    drafts = _drafts(given, gangs, sizes, wanted)
    if not given.stops_jobs:
        goes_on = given.snapshot.jobs.running & given.opened.movable
        drafts = [(-inf if (draft.first[goes_on] < 0).any() else worth, draft) for worth, draft in drafts]
    best = _best(drafts)
    if not given.snapshot.resize_restarts and not len(gangs.forms.line):
        share_with_gangs(best[1], gangs)
    return best


def _best(drafts: Sequence[tuple[float, PlacementDraft]]) -> tuple[float, PlacementDraft]:
    """Return the first of the drafts that are worth most."""
    return max(drafts, key=lambda each: round(each[0], 9))


def _drafts(
    given: AllocationInput, gangs: Gangs, sizes: TypedSizes, wanted: Bools
) -> list[tuple[float, PlacementDraft]]:
    """Return drafts for jobs of these sizes, each with its worth: running jobs stay, or all are placed again.

    Beside elastic jobs those that are not wanted come last, unless speeds by size are learned. Each job counts as fast
    as it is known to be on the machines that it has. Running jobs of another size than they hold are placed again in
    any case.
    """
    snapshot, opened = given.snapshot, given.opened
    worth, order = Worth(snapshot, gangs, for_running(given.stops_jobs)), _by_density(given, gangs)
    keeps = keeps_size(given, gangs)
    stays = given.keeping(keeps)
    if len(gangs.forms.line):
        return plans_on_network(given, gangs, sizes, worth, stays, order)
    if snapshot.size_speeds is None and snapshot.jobs.elastic.any():
        order = order[np.argsort(~wanted[order], kind="stable")]
    drafts = []
    if snapshot.resize_restarts:
        drafts.append(stays.copy())
        place_missing(drafts[0], gangs, order)
    drafts.append(stays)
    _place(given, gangs, stays, order, worth.lost)
    staying = [(worth.of(draft, as_placed(given, sizes, draft)), draft) for draft in drafts]
    reached = max(count for count, _ in staying)
    known: Remembered = given.proposal.remembered or NOTHING
    if not snapshot.jobs.running[opened.movable].any():
        return staying
    if reached >= worth.at_most(np.flatnonzero(opened.planned), opened.gpus) - REACHED:
        return staying
    if known.again_may_be_worth(given, sizes, worth.most_of_each) <= reached:
        return staying
    again = given.keeping(np.zeros(len(keeps), np.bool_))
    _place(given, gangs, again, order, np.zeros(len(worth.lost)))
    relative = as_placed(given, sizes, again)
    without_restarts = worth.of(again, relative, restarts=False)
    made = PlacedAgain.of(given, sizes, worth.most_of_each, without_restarts)
    given.proposal.remembered = replace(known, again=made)
    if without_restarts <= reached:
        return staying
    if (keeps & opened.movable & (again.first < 0)).any():
        some_stay = given.keeping(keeps & (again.first >= 0))
        _place(given, gangs, some_stay, order, worth.lost)
        staying.append((worth.of(some_stay, as_placed(given, sizes, some_stay)), some_stay))
    return [*staying, (worth.of(again, relative), again)]


def _place(given: AllocationInput, gangs: Gangs, draft: PlacementDraft, order: Ints, lost: Floats) -> None:
    """Add the jobs of an order to a draft, each where the worth of all gains most."""
    snapshot = given.snapshot
    if not snapshot.resize_restarts:
        fill_all(draft, gangs)
    splits_freely = given.stops_jobs and snapshot.size_speeds is None
    place_jointly(draft, gangs, order, lost, for_running(given.stops_jobs), splits_freely)


def _only_gpus_are_short(given: AllocationInput) -> bool:
    """Return whether an order stops jobs for others, and the nodes have all that its chosen jobs can use.

    Where CPU or memory is short, the jobs that fit by GPUs need not be the best ones to run.
    """
    if not given.stops_jobs:
        return False
    gangs, at = given.gangs, given.ranked[given.chosen[given.ranked]]
    gpus = np.bincount(gangs.classes[at], gangs.gpus[at], len(gangs.demands.least_best)).astype(np.int64)
    wanted = gpus @ gangs.demands.least_best
    return bool((wanted[:BUILT_IN_COUNT] <= _in_all(given)).all())


def _weights(
    snapshot: Snapshot,
    ranked: Ints,
    chosen: Bools,
    stops_jobs: bool,
    not_chosen: float = _NOT_CHOSEN,
) -> Floats:
    """Return what a second of each job's progress counts, by position.

    It is the job's GPUs, or a power of them under an order that stops no job, over one plus the GPUs that all jobs
    before it need at least, in clusters: the jobs that fill the first cluster count from one down to a half for each
    GPU, those that would fill the tenth about a tenth. On a network elastic jobs and those that fit beside the ones
    before them count one: else cores of the last go to the first, and GPUs beside the first are idle. Rigid jobs that
    do not fit count `not_chosen` times that. An elastic job counts that times a power of the part of the elastic jobs
    that are not before it: where it ends sooner, it and those have more GPUs sooner. Running jobs that are not ranked
    keep their places and count most.
    """
    gpus = np.maximum(snapshot.jobs.requested_gpus, 1e-3)
    weight: Floats = gpus if stops_jobs else power(gpus, _POWER_WHERE_JOBS_ARE_KEPT)
    if not len(ranked):
        return weight
    elastic = snapshot.jobs.elastic
    needed = np.where(elastic, snapshot.jobs.min_gpus, gpus)[ranked]
    ahead = np.zeros(len(gpus))
    ahead[ranked] = np.cumsum(needed) - needed
    clusters = ahead / max(snapshot.cluster.total_gpus, 1)
    if clusters.any() and places_differ(snapshot, snapshot.jobs.gpus):
        clusters[chosen | elastic] = 0.0
    weight /= 1 + clusters
    weight[~chosen & ~elastic] *= not_chosen
    if elastic.any():
        of_many = ranked[elastic[ranked]]
        weight[of_many] *= power(1 - np.arange(len(of_many)) / max(len(of_many), 1), _SPEED_UP)
    return weight


def _by_density(given: AllocationInput, gangs: Gangs) -> Ints:
    """Return the ranked jobs, those first that are worth most for what they take, the scarce counting more."""
    at = given.ranked
    if len(at) < 2:
        return at
    demand = gangs.demands.least_best[gangs.classes[at]] * gangs.gpus[at][:, None]
    used = demand[:, :BUILT_IN_COUNT] / _in_all(given)
    scarcity = np.minimum(used.sum(axis=0), _SCARCEST)
    density = gangs.weight[at] * gangs.demands.fastest[gangs.classes[at]] / np.maximum(used @ scarcity, 1e-12)
    order: Ints = at[np.argsort(-density, kind="stable")]
    return order


def _in_all(given: AllocationInput) -> Ints:
    """Return what all nodes have of each resource."""
    total: Ints = np.maximum(given.snapshot.ledger.books.nodes["capacity"].sum(axis=0), 1)
    return total[:BUILT_IN_COUNT]
