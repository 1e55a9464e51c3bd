"""joint on a network: each job where the plan gains most, its place's form counting.

Several plans are made. Running jobs stay and others join them, only those stay that the order chooses, or all are
placed again; large gangs that the network can hurt go first, or the jobs by density. The plan that is worth most is
taken.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.drafting import keep_in_place
from muster.schedulers.allocation.gangs import Gangs
from muster.schedulers.allocation.placement_draft import PlacementDraft
from muster.schedulers.allocation.resource_fill import fill_all
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.joint.for_running import for_running
from muster.schedulers.joint.joint_core import place_on_network
from muster.schedulers.joint.sizes import keeps_size
from muster.schedulers.placement.network_aware import most_sensitive_first
from muster.speed.network.forms import Forms

_ENOUGH = (0.7, 0.05)
"""Shares of its best speed for which a job takes a place: before others do, and of what all leave; else it waits."""
_REACHED = 1e-9
_BY_ORDER = 0.05
"""Part by which another plan must be worth more than the one in which the chosen jobs stay and large gangs go first."""


def plans_on_network(
    given: AllocationInput, gangs: Gangs, worth: Worth, most: float, stays: PlacementDraft, by_density: Ints
) -> list[tuple[float, PlacementDraft]]:
    """Return drafts, each with its worth: jobs stay as in `stays`, the chosen alone stay, or all are placed again.

    `most` is what any draft is worth at most. If none can be worth enough more than the one in which the chosen stay
    and large gangs go first, that is the only one.
    """
    opened, starts = given.opened, [(stays, worth.lost)]
    if given.snapshot.jobs.running[opened.movable].any():
        starts.append((opened.copy(), np.zeros(len(worth.lost))))
        starts.append((opened.copy(), worth.lost))
        stay = given.chosen & keeps_size(given, gangs)
        keep_in_place(given.snapshot.ledger.books, given.snapshot.jobs.index, starts[-1][0], stay)
    large_first, drafts = _large_first(given, gangs, by_density), []
    for start, lost in reversed(starts):  # so are the drafts, until the end: of equals the first is taken
        if start is not stays or not given.snapshot.resize_restarts:
            fill_all(start, gangs)
        changed, draft = _placed(given, gangs, start, stays, large_first, lost)
        drafts.append((worth.of(draft), draft))
        if start is starts[-1][0]:
            drafts[0] = drafts[0][0] * (1 + _BY_ORDER), draft
            if drafts[0][0] > most + _REACHED:
                return drafts
        changed_too, other = _placed(given, gangs, start, stays, by_density, lost)
        if changed or changed_too:
            drafts.insert(-1, (worth.of(other), other))
    return drafts[::-1]


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
