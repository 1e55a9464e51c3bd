"""joint on a network: each job where the plan gains most, its place's form counting.

Several plans are made. Running jobs stay and others join them, only those stay that the order chooses, or all are
placed again; large gangs that the network can hurt go first, or the jobs by density. The plan that is worth most is
taken.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.drafting import keep_amounts, keep_in_place
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.resource_fill import fill_all
from muster.schedulers.joint.for_running import for_running
from muster.schedulers.joint.joint_core import place_on_network
from muster.schedulers.joint.joint_worth import JointWorth
from muster.schedulers.joint.sizes import keeps_size
from muster.schedulers.placement.network_aware import most_sensitive_first
from muster.speed.network.forms import Forms

_ENOUGH = (0.7, 0.05)
"""Shares of its best speed for which a job takes a place: before others do, and of what all leave; else it waits."""
_BY_ORDER = 0.05
"""Part by which a plan that runs other jobs must be worth more than the one in which the chosen jobs stay and large
gangs go first."""


def plans_on_network(
    given: AllocationInput, gangs: Gangs, stays: PlacementDraft, by_density: Ints
) -> list[tuple[float, PlacementDraft]]:
    """Return drafts, each with its worth: jobs stay as in `stays`, the chosen alone stay, or all are placed again."""
    snapshot, opened = given.snapshot, given.opened
    worth = JointWorth(snapshot, gangs, for_running(given.stops_jobs))
    if not snapshot.resize_restarts:
        fill_all(stays, gangs)
    starts = [(stays, worth.lost)]
    if snapshot.jobs.running[opened.movable].any():
        again = opened.copy()
        keep_amounts(snapshot.ledger.books, snapshot.jobs.index, again)
        fill_all(again, gangs)
        starts.append((again, np.zeros(len(snapshot.jobs))))
        served = opened.copy()
        stay = given.chosen & keeps_size(given, gangs)
        keep_in_place(snapshot.ledger.books, snapshot.jobs.index, served, stay)
        keep_amounts(snapshot.ledger.books, snapshot.jobs.index, served)
        fill_all(served, gangs)
        starts.append((served, worth.lost))
    large_first, drafts = _large_first(given, gangs, by_density), []
    for start, lost in starts:
        changed, draft = _placed(given, gangs, start, stays, large_first, lost)
        drafts.append((worth.of(draft), draft))
        changed_too, other = _placed(given, gangs, start, stays, by_density, lost)
        drafts.append((worth.of(other), other) if changed or changed_too else drafts[-1])
    runs = drafts[-2][1].first >= 0
    same_jobs = [bool(((draft.first >= 0) == runs).all()) for _, draft in drafts]
    return [
        (worth * (1 + _BY_ORDER * same), draft)
        for same, (worth, draft) in zip(same_jobs, drafts, strict=True)
    ]


def _placed(
    given: AllocationInput,
    gangs: Gangs,
    start: PlacementDraft,
    before: PlacementDraft,
    order: Ints,
    lost: Floats,
) -> tuple[bool, PlacementDraft]:
    """Add the jobs of an order to a draft, first where they are fast and then where there is room.

    Returns whether any has a place now, and the new draft.
    """
    draft = start.copy()
    books, running = given.snapshot.ledger.books, for_running(given.stops_jobs)
    return place_on_network(books, draft, before, gangs, order, lost, running, _ENOUGH), draft


def _large_first(given: AllocationInput, gangs: Gangs, by_density: Ints) -> Ints:
    """Return the first job in rank, then large gangs that the network can hurt, then those not chosen by density."""
    served = given.ranked[given.chosen[given.ranked]]
    share = Forms(gangs.forms.kinds, gangs.forms.speeds).share_anywhere[gangs.forms.line]
    others = by_density[~given.chosen[by_density]]
    return np.concatenate([served[:1], most_sensitive_first(served[1:], share, gangs.gpus), others])
