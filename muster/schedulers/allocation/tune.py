"""Synergy's tune (§4.2): best-case demands packed by best fit, lowered to the fair share where they clash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger import Transaction
from muster.cluster.ledger_arrays import NONE, WHOLE, Books, Bools, Floats, Ints, count_bits
from muster.compiling import njit
from muster.schedulers.allocation.gangs import (
    Gangs,
    ask_above_share,
    fair_per_gpu,
    gangs_of,
    place_gang,
    requested_by_kind,
)
from muster.schedulers.allocation.placement_draft import (
    APART,
    MOVABLE,
    SETTLED,
    PlacementDraft,
    empty_copy,
    fits,
    furnish,
    gpus_that_fit,
    keep_amounts,
    keep_in_place,
    open_draft,
    remove_last,
    sit,
    write_draft,
)
from muster.schedulers.allocation.resource_fill import furnish_all, gang_speed, raise_gang
from muster.schedulers.allocation.worth import Worth
from muster.schedulers.contract import Snapshot
from muster.schedulers.honours import CPUS_AND_MEMORY
from muster.schedulers.parts import GangAllocator


@dataclass(frozen=True)
class Tune(GangAllocator):
    """Best-case demand where it fits, else the fair share, neighbours lowered to theirs; never below fair (Synergy)."""

    name: ClassVar[str] = "tune"
    stable_when_queue_empty: ClassVar[bool] = False
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY
    furnishes: ClassVar[bool] = True

    def allocate(
        self,
        snapshot: Snapshot,
        transaction: Transaction,
        ranked: Ints,
        chosen: Bools,
        codes: Ints,
        a: Floats,
        b: Floats,
    ) -> None:
        """Place all jobs again where that repays the moves; else running jobs keep their GPUs."""
        gangs, opened = gangs_of(snapshot), open_draft(snapshot, transaction, ranked, chosen)
        plan = _tuned(snapshot, gangs, opened, ranked, chosen)
        moving = snapshot.jobs.running & (opened.condition == MOVABLE)
        if snapshot.jobs.interruption_cost[moving].any():
            stays = _tuned(snapshot, gangs, _settle_running(snapshot, opened, chosen), ranked, chosen)
            worth = Worth(snapshot, gangs)
            if worth.of(stays) >= worth.of(plan):
                plan = stays
        keep_stopped(snapshot, gangs, plan, ranked, chosen)
        write_draft(snapshot, transaction, plan, ranked, chosen, codes, a, b)

    def least_per_gpu(self, snapshot: Snapshot) -> Ints:
        """The fair demand."""
        return fair_per_gpu(snapshot)


def _tuned(
    snapshot: Snapshot, gangs: Gangs, opened: PlacementDraft, ranked: Ints, chosen: Bools
) -> PlacementDraft:
    plan = empty_copy(opened)
    keep_amounts(snapshot.ledger.books, snapshot.jobs.index, plan)
    tune(plan, gangs, by_demand_descending(plan, gangs, chosen), ranked)
    return plan


def _settle_running(snapshot: Snapshot, opened: PlacementDraft, chosen: Bools) -> PlacementDraft:
    """Return the plan with the chosen jobs that run settled where they run."""
    settled = empty_copy(opened)
    keep_in_place(snapshot.ledger.books, snapshot.jobs.index, settled, chosen)
    at_home = (settled.first != NONE) & (settled.condition == MOVABLE)
    return settled._replace(condition=np.where(at_home, SETTLED, settled.condition))


def by_demand_descending(draft: PlacementDraft, gangs: Gangs, chosen: Bools) -> Ints:
    """Step 1: settled jobs, then chosen ones; each by GPUs, then CPUs, then memory demanded, descending.

    Newcomers see what settled jobs leave them. Those that request more than their share come before the others.
    """
    served = np.flatnonzero((chosen | (draft.condition == SETTLED)) & (draft.condition != APART))
    per_gpu = gangs.demands.best.max(axis=1)[gangs.classes[served]]
    gpus = gangs.gpus[served]
    movable = draft.condition[served] == MOVABLE
    above = ask_above_share(gangs, served)
    return served[np.lexsort((-gpus * per_gpu[:, 2], -gpus * per_gpu[:, 1], -gpus, ~above, movable))]


@njit(cache=True)
def tune(draft: PlacementDraft, gangs: Gangs, served: Ints, ranked: Ints) -> None:
    """Steps 2 to 5 for the served; those of them without a place leave their GPUs to others, by rank.

    Settled jobs begin with what they hold (`keep_amounts`). With any of them, each machine is given out in the end
    to those of its jobs that gain most: jobs that met by chance and cannot part need not starve each other.
    """
    take = np.zeros(len(gangs.kind_of_node), np.int64)
    some_settled = False
    for at in served:
        if draft.condition[at] == SETTLED:
            some_settled = True
            _lower_to_fair(draft, gangs, at)
    left = 0
    for at in served:
        if draft.condition[at] == SETTLED:
            _raise_settled(draft, gangs, at)
        elif not place_by_best_fit(draft, gangs, at, take):
            left += gangs.gpus[at]
    for at in ranked:
        if draft.condition[at] == MOVABLE and draft.first[at] < 0 and gangs.gpus[at] <= left:
            left -= gangs.gpus[at] * place_by_best_fit(draft, gangs, at, take)
    if some_settled:
        furnish_all(draft, gangs)
        for at in served:
            raise_gang(draft, gangs, at)


@njit(cache=True)
def _lower_to_fair(draft: PlacementDraft, gangs: Gangs, at: int) -> None:
    """Take what a job holds beyond its fair share and has no use for."""
    fair = gangs.demands.fair[gangs.classes[at]]
    if not _is_above_fair(draft, gangs, at) and _has_room(draft, gangs, at, fair):
        set_level(draft, gangs, at, fair)


@njit(cache=True)
def _raise_settled(draft: PlacementDraft, gangs: Gangs, at: int) -> None:
    """A job that keeps its GPUs: its demand where it fits, else what it holds, and the fair share at least.

    The fair share is taken back from neighbours if need be.
    """
    best = gangs.demands.best[gangs.classes[at]]
    if _has_room(draft, gangs, at, best):
        set_level(draft, gangs, at, best)
    elif not _is_above_fair(draft, gangs, at):
        kept = _per_gpu_of(draft, at)
        set_level(draft, gangs, at, requested_by_kind(gangs, at))
        if not _take_fair_share(draft, gangs, at):
            number, place = draft.first[at], 0
            while number >= 0:
                furnish(draft, number, kept[place])
                number, place = draft.node_parts[number]["next"], place + 1


@njit(cache=True)
def _per_gpu_of(draft: PlacementDraft, at: int) -> Ints:
    """What a job has beside each of its GPUs, by machine and resource."""
    count, number = 0, draft.first[at]
    while number >= 0:
        count, number = count + 1, draft.node_parts[number]["next"]
    amounts = np.zeros((count, 4), np.int64)
    count, number = 0, draft.first[at]
    while number >= 0:
        amounts[count] = draft.node_parts[number]["amount"] // draft.node_parts[number]["gpus"]
        count, number = count + 1, draft.node_parts[number]["next"]
    return amounts


@njit(cache=True)
def _is_above_fair(draft: PlacementDraft, gangs: Gangs, at: int) -> bool:
    """Whether a job is faster on what it has than with its fair share."""
    fair_speed, number = np.inf, draft.first[at]
    while number >= 0:
        kind = gangs.kind_of_node[draft.node_parts[number]["node"]]
        fair_speed = min(fair_speed, gangs.demands.fair_speed[gangs.classes[at], kind])
        number = draft.node_parts[number]["next"]
    return bool(gang_speed(draft, gangs, at) > fair_speed * (1 + 1e-9))


@njit(cache=True)
def _has_room(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints) -> bool:
    """Whether all machines of a job have room for a need instead of what it has; by kind and resource."""
    number = draft.first[at]
    while number >= 0:
        node_part = draft.node_parts[number]
        more = need[gangs.kind_of_node[node_part["node"]]] - node_part["amount"] // node_part["gpus"]
        if not fits(draft, node_part["node"], node_part["gpus"], more):
            return False
        number = node_part["next"]
    return True


@njit(cache=True)
def set_level(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints) -> None:
    """Furnish all seats of a job alike; `need` is by kind of machine and resource."""
    number = draft.first[at]
    while number >= 0:
        furnish(draft, number, need[gangs.kind_of_node[draft.node_parts[number]["node"]]])
        number = draft.node_parts[number]["next"]


@njit(cache=True)
def place_by_best_fit(draft: PlacementDraft, gangs: Gangs, at: int, take: Ints) -> bool:
    """Steps 2 to 5 for one job; whether it has a place."""
    best, fair = gangs.demands.best[gangs.classes[at]], gangs.demands.fair[gangs.classes[at]]
    with_best, with_fair, with_gpus = _best_fits(draft, gangs, at, best, fair)
    take[:] = 0
    if with_best >= 0:
        take[with_best] = gangs.gpus[at]
        place_gang(draft, gangs, at, best, take)
        return True
    if with_fair >= 0:
        take[with_fair] = gangs.gpus[at]
        place_gang(draft, gangs, at, fair, take)
        return True
    if with_gpus >= 0:
        take[with_gpus] = gangs.gpus[at]
    else:
        nothing = np.zeros_like(fair)
        room = fewest_servers(draft, gangs, at, nothing, take)
        if room == 0:
            return False
        for need in (best, fair):
            if fewest_servers(draft, gangs, at, need, take) == room:
                place_gang(draft, gangs, at, need, take)
                return True
        fewest_servers(draft, gangs, at, nothing, take)
    for node in range(len(take)):
        if take[node] > 0:
            need_here = fair[gangs.kind_of_node[node]]
            reclaim(draft, gangs, node, take[node], need_here)
            if not fits(draft, node, take[node], need_here):
                return False
    place_gang(draft, gangs, at, fair, take)
    return True


@njit(cache=True)
def _best_fits(draft: PlacementDraft, gangs: Gangs, at: int, best: Ints, fair: Ints) -> tuple[int, int, int]:
    """The best-fitting server for the whole job with its demand, with its fair share, with its GPUs alone."""
    gpus = gangs.gpus[at]
    allowed = gangs.node_allowed[gangs.constraint[at]]
    home = draft.home[at]
    with_best, with_fair, with_gpus = -1, -1, -1
    for node in range(len(gangs.kind_of_node)):
        if draft.free[node, 0] < gpus or not allowed[node]:
            continue
        kind = gangs.kind_of_node[node]
        if with_best < 0 or tighter(draft, node, with_best, home):
            if fits(draft, node, gpus, best[kind]):
                with_best = node
            if with_best < 0 and (with_fair < 0 or tighter(draft, node, with_fair, home)):
                if fits(draft, node, gpus, fair[kind]):
                    with_fair = node
                if with_gpus < 0 or tighter(draft, node, with_gpus, home):
                    with_gpus = node
    return with_best, with_fair, with_gpus


def keep_stopped(
    snapshot: Snapshot, gangs: Gangs, draft: PlacementDraft, ranked: Ints, chosen: Bools
) -> None:
    """Give running jobs that lost their place to no other job their GPUs back, with their fair share, by rank.

    Not while chosen jobs of a share of a GPU wait: those are placed last, and the GPUs may be for them.
    """
    jobs = snapshot.jobs.at(ranked)
    if not ((jobs.gpu_milli < WHOLE) & jobs.waiting & chosen[ranked]).any():
        _keep_stopped(snapshot.ledger.books, snapshot.jobs.index, draft, gangs, ranked)


@njit(cache=True)
def _keep_stopped(books: Books, index: Ints, draft: PlacementDraft, gangs: Gangs, ranked: Ints) -> None:
    for at in ranked:
        head = books.heads[index[at]]
        if head < 0 or draft.condition[at] != MOVABLE or draft.first[at] >= 0:
            continue
        free = True
        row = head
        while row >= 0:
            free = free and draft.free[books.rows[row]["node"], 0] >= count_bits(books.rows[row]["mask"])
            row = books.rows[row]["next"]
        if not free:
            continue
        before, row = draft.used[0], head
        while row >= 0:
            sit(draft, at, books.rows[row]["node"], count_bits(books.rows[row]["mask"]))
            row = books.rows[row]["next"]
        if not _take_fair_share(draft, gangs, at):
            while draft.used[0] > before:
                remove_last(draft)


@njit(cache=True)
def _take_fair_share(draft: PlacementDraft, gangs: Gangs, at: int) -> bool:
    """Give a job that has no more than its request its fair share, taken from its neighbours if need be.

    Returns whether it fits.
    """
    fair = gangs.demands.fair[gangs.classes[at]]
    number = draft.first[at]
    while number >= 0:
        node_part = draft.node_parts[number]
        more = fair[gangs.kind_of_node[node_part["node"]]] - node_part["amount"] // node_part["gpus"]
        reclaim(draft, gangs, node_part["node"], node_part["gpus"], more)
        number = node_part["next"]
    fits_now = _has_room(draft, gangs, at, fair)
    if fits_now:
        set_level(draft, gangs, at, fair)
    return bool(fits_now)


@njit(cache=True)
def fit_with_demand(draft: PlacementDraft, gangs: Gangs, at: int) -> int:
    """Return the best-fitting server with room for the whole job and all of its demand; -1: none."""
    demand = gangs.demands.best[gangs.classes[at]]
    node, _, _ = _best_fits(draft, gangs, at, demand, demand)
    return int(node)


@njit(cache=True)
def fewest_servers(draft: PlacementDraft, gangs: Gangs, at: int, need: Ints, take: Ints) -> int:
    """Choose as few servers as possible for a need, the last by best fit; how many, 0 without a place.

    Best fit is the server with the fewest free GPUs, then CPUs, then memory; of equals the job's own, then the
    first. `take` gets the GPUs on each.
    """
    nodes = len(take)
    allowed = gangs.node_allowed[gangs.constraint[at]]
    take[:] = 0
    fit = np.zeros(nodes, np.int64)
    total = 0
    for node in range(nodes):
        if allowed[node] and draft.free[node, 0] > 0:
            fit[node] = gpus_that_fit(draft, node, need[gangs.kind_of_node[node]])
            total += fit[node]
    left = gangs.gpus[at]
    if total < left:
        return 0
    servers = 0
    while left > 0:
        most, tightest = -1, -1
        for node in range(nodes):
            if fit[node] > 0 and take[node] == 0:
                if most < 0 or fit[node] > fit[most]:
                    most = node
                if fit[node] >= left and (tightest < 0 or tighter(draft, node, tightest, draft.home[at])):
                    tightest = node
        chosen = tightest if tightest >= 0 else most
        take[chosen] = min(fit[chosen], left)
        left -= take[chosen]
        servers += 1
    return servers


@njit(cache=True)
def tighter(draft: PlacementDraft, node: int, other: int, home: int) -> bool:
    """Best fit: whether a machine has less free than another, GPUs before CPUs before memory; of equals home."""
    for resource in range(3):
        if draft.free[node, resource] != draft.free[other, resource]:
            return bool(draft.free[node, resource] < draft.free[other, resource])
    return node == home


@njit(cache=True)
def reclaim(draft: PlacementDraft, gangs: Gangs, node: int, gpus: int, need: Ints) -> None:
    """Step 4: lower jobs here that hold more than their fair share, most above first, while it is needed."""
    while not fits(draft, node, gpus, need):
        victim, most = -1, 0.0
        number = draft.first_here[node]
        while number >= 0:
            above = _above_fair(draft, gangs, number, gpus, need)
            if above > most:
                victim, most = number, above
            number = draft.node_parts[number]["next_here"]
        if victim < 0:
            return
        at = draft.node_parts[victim]["at"]
        set_level(draft, gangs, at, gangs.demands.fair[gangs.classes[at]])


@njit(cache=True)
def _above_fair(draft: PlacementDraft, gangs: Gangs, number: int, gpus: int, need: Ints) -> float:
    """What a seat holds above its fair share of what is short, in GPUs' shares."""
    node_part = draft.node_parts[number]
    kind = gangs.kind_of_node[node_part["node"]]
    fair = gangs.demands.fair[gangs.classes[node_part["at"]], kind]
    above = 0.0
    for resource in range(1, 4):
        if draft.free[node_part["node"], resource] < gpus * need[resource]:
            excess = node_part["amount"][resource] - node_part["gpus"] * fair[resource]
            above += max(excess, 0) / max(gangs.kinds[kind]["share"][resource], 1)
    return above
