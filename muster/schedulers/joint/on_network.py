"""joint on a network: each job where the plan gains most, its place's form counting.

Several plans are made. Running jobs stay and others join them, only those stay that the order chooses, or all are
placed again; large gangs that the network can hurt go first, or the jobs by density. The plan that is worth most is
taken, where jobs on the same uplinks count as fast as they are beside each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.resource_fill import fill_all
from muster.schedulers.allocation.worth import REACHED, Worth
from muster.schedulers.joint.for_running import for_running
from muster.schedulers.joint.joint_core import place_on_network
from muster.schedulers.joint.looked_for import LookedFor
from muster.schedulers.joint.modelled_speeds import TypedSizes
from muster.schedulers.joint.placed_again import PlacedAgain
from muster.schedulers.joint.remembered import NOTHING, Remembered
from muster.schedulers.joint.sizes import keeps_size
from muster.schedulers.placement.network_aware import most_sensitive_first
from muster.schedulers.placement.reachable import LEAST_SHARE
from muster.speed.network.placement import Placements

_FAST = 0.7
"""A share of its best speed for which a job takes a place before others that have none."""
_SLOW = 0.5
"""One for which a job that the order serves takes a place before all that it does not serve."""
_BY_ORDER = 0.05
"""Part by which a plan that runs other jobs must be worth more than the one in which the chosen jobs stay and large
gangs go first."""
_LOOKS_AGAIN = 0.01
"""Part of the GPUs whose jobs are others, or may move at less cost, before better places are looked for again."""


def plans_on_network(
    given: AllocationInput,
    gangs: Gangs,
    sizes: TypedSizes,
    worth: Worth,
    stays: PlacementDraft,
    by_density: Ints,
) -> list[tuple[float, PlacementDraft]]:
    """Return drafts, each with its worth: the chosen alone stay, all jobs stay as in `stays`, or are placed again.

    If none that runs other jobs may be worth enough more than the first one, by what any is worth at most or by what
    others were worth when they were last made, of the others only that is made which most likely has better places for
    the same jobs, once enough of them changed since; and where a resize restarts a job, that in which all jobs keep
    what they have. There is one draft if no running job may move and both orders are the same.
    """
    orders = _large_first(given, gangs, by_density), by_density
    some_may_move = bool(given.snapshot.jobs.running[given.opened.movable].any())
    served = given.keeping(given.chosen & keeps_size(given, gangs)) if some_may_move else stays
    if some_may_move or not given.snapshot.resize_restarts:
        fill_all(served, gangs)
    if not len(given.ranked):
        return [(worth.of(served), served)]
    chosen_stay = _placed(given, gangs, served, stays, orders[0], worth.lost)
    if not some_may_move and (orders[0] == orders[1]).all():
        return [(worth.of(chosen_stay), chosen_stay)]
    first = worth.of(chosen_stay, _beside_others(given, chosen_stay))
    known: Remembered = given.proposal.remembered or NOTHING
    most = worth.at_most(np.flatnonzero(given.opened.planned), given.opened.gpus)
    may_reach = min(most + REACHED, known.again_may_be_worth(given, sizes, worth.most_of_each))
    others_may_win = first * (1 + _BY_ORDER) <= may_reach
    moves = others_may_win or known.changed(given, gangs, chosen_stay, worth.lost) > _LOOKS_AGAIN
    begin = _beginnings(given, gangs, worth.lost, (stays, served), orders, (moves, others_may_win))
    others = [_placed(given, gangs, start, stays, order, cost) for start, cost, order in begin]
    seen = [(draft, _beside_others(given, draft)) for draft in others]
    if others_may_win and some_may_move:
        reached = max(worth.of(draft, shares, restarts=False) for draft, shares in seen)
        known = replace(known, again=PlacedAgain.of(given, sizes, worth.most_of_each, reached))
    if moves and some_may_move:
        known = replace(known, looked_for=LookedFor.of(given, gangs, chosen_stay, worth.lost))
    given.proposal.remembered = known
    return [(first * (1 + _BY_ORDER), chosen_stay), *_counted(worth, chosen_stay, seen)]


def _counted(
    worth: Worth, first: PlacementDraft, seen: Sequence[tuple[PlacementDraft, Floats | None]]
) -> Iterator[tuple[float, PlacementDraft]]:
    """Yield drafts with what they count, those more that run the same jobs as the first."""
    runs = first.first >= 0
    for draft, shares in seen:
        same = bool(((draft.first >= 0) == runs).all())
        yield worth.of(draft, shares) * (1 + _BY_ORDER * same), draft


def _beginnings(
    given: AllocationInput,
    gangs: Gangs,
    lost: Floats,
    starts: tuple[PlacementDraft, PlacementDraft],
    orders: tuple[Ints, Ints],
    wanted: tuple[bool, bool],
) -> Iterator[tuple[PlacementDraft, Floats, Ints]]:
    """Yield the beginnings of further drafts, each with what taking a place costs by job, and the order of jobs.

    `starts` are where all jobs stay and where only the chosen do, the same draft if none may move; `orders` have large
    gangs first, and the jobs by density; `wanted` are drafts that move the same jobs, which is the first, and those of
    other jobs. Nodes of `stays` are shared among its jobs only where a draft begins with it.
    """
    (stays, served), (large_first, by_density), (moves, others_may_win) = starts, orders, wanted
    resize_restarts, some_may_move = given.snapshot.resize_restarts, served is not stays
    if some_may_move and moves:
        nothing = np.zeros(len(lost))
        again = given.keeping(np.zeros(len(lost), np.bool_))
        fill_all(again, gangs)
        yield again, nothing, large_first
        if others_may_win:
            yield again, nothing, by_density
    if some_may_move and others_may_win and not resize_restarts:
        fill_all(stays, gangs)
    if some_may_move and (others_may_win or resize_restarts):
        yield stays, lost, large_first
    if others_may_win:
        yield stays, lost, by_density
        if some_may_move:
            yield served, lost, by_density


def _beside_others(given: AllocationInput, draft: PlacementDraft) -> Floats | None:
    """Return how fast jobs are beside those that send over their uplinks, against that alone; None: as fast."""
    forms, jobs = given.snapshot.forms, given.snapshot.jobs
    if forms is None or forms.speed is None or not forms.contention:
        return None
    parts = draft.node_parts[: int(draft.used[0])]
    holder = parts["at"]
    count = np.bincount(holder, minlength=len(jobs))
    at = np.flatnonzero(count > 1)
    if len(at) < 2:
        return None
    several = np.flatnonzero(count[holder] > 1)
    here = parts[several[np.argsort(holder[several], kind="stable")]]
    first = np.concatenate([[0], np.cumsum(count[at])])
    placements = Placements(first, here["node"].copy(), (1 << here["gpus"]) - 1)
    share = np.ones(len(jobs))
    share[at] = forms.speed.share_beside_others(jobs.model[at], placements)
    return share


def _placed(
    given: AllocationInput,
    gangs: Gangs,
    start: PlacementDraft,
    before: PlacementDraft,
    order: Ints,
    lost: Floats,
) -> PlacementDraft:
    """Return a draft with the jobs of an order added, first where they are fast and then where there is room.

    A job that has not even a slow place is placed after all others.
    """
    draft = start.copy()
    books, running = given.snapshot.ledger.books, for_running(given.stops_jobs)
    served = order[given.chosen[order]]
    for jobs, least in (served, _SLOW), (order, LEAST_SHARE):
        place_on_network(books, draft, before, gangs, jobs, lost, running, (_FAST, least))
    return draft


def _large_first(given: AllocationInput, gangs: Gangs, by_density: Ints) -> Ints:
    """Return the first job in rank, then large gangs that the network can hurt, then those not chosen by density."""
    served = given.ranked[given.chosen[given.ranked]]
    share = gangs.forms.share_anywhere[gangs.forms.line]
    others = by_density[~given.chosen[by_density]]
    return np.concatenate([served[:1], most_sensitive_first(served[1:], share, gangs.gpus), others])
