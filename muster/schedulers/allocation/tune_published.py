"""Synergy's tune as its authors' simulator has it, for comparison on the same input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.books import Books, Bools, Floats, Ints, Rows
from muster.cluster.ledger import Transaction
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs, gangs_of, seat_gang
from muster.schedulers.allocation.greedy import keep_settled
from muster.schedulers.allocation.pickers import GpuChoice, pick
from muster.schedulers.allocation.seats import MOVABLE, Seats, furnish, open_seats, write_seats
from muster.schedulers.contract import View
from muster.schedulers.honours import CPUS_AND_MEMORY
from muster.schedulers.parts import Allotment, setting


@dataclass(frozen=True)
class TunePublished(Allotment):
    """Tune as published: placed anew in policy order, all of the demand or the share, neighbours cut to theirs."""

    name: ClassVar[str] = "tune-published"
    rests: ClassVar[bool] = False
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY
    by_order: ClassVar[bool] = True

    gpu_choice: GpuChoice = setting("first-fit", "how servers are chosen: first-fit or consolidating")
    listed: bool = setting(
        False,
        "only jobs whose GPUs fit by the walk in order are tried, most GPUs first, as the published LAS",
    )

    def allot(
        self,
        view: View,
        transaction: Transaction,
        ranked: Ints,
        chosen: Bools,
        codes: Ints,
        a: Floats,
        b: Floats,
    ) -> None:
        """Demand, else share, else take from neighbours; running jobs that may not move get what is free beside."""
        gangs, seats = gangs_of(view), open_seats(view, transaction, ranked, chosen)
        tried = ranked
        if self.listed:
            tried = ranked[chosen[ranked]]
            tried = tried[np.argsort(-gangs.gpus[tried], kind="stable")]
        books, index = view.ledger.books, view.jobs.index
        _place(books, index, seats, gangs, tried, self.gpu_choice == "consolidating")
        write_seats(view, transaction, seats, ranked, chosen, codes, a, b)


@njit(cache=True)
def _place(books: Books, index: Ints, seats: Seats, gangs: Gangs, tried: Ints, consolidating: bool) -> None:
    keep_settled(books, index, seats, gangs)
    take = np.zeros(len(gangs.kind_of_node), np.int64)
    budget = seats.free[:, 0].sum()
    for at in tried:
        if budget == 0:
            break
        if seats.condition[at] != MOVABLE or gangs.gpus[at] > budget:
            continue
        need = gangs.demands.published[gangs.classes[at]]
        placed = pick(seats, gangs, at, need, consolidating, take)
        if not placed:
            need = _share_if_above(need, gangs.demands.share[gangs.classes[at]])
            placed = pick(seats, gangs, at, need, consolidating, take)
        if not placed:
            _reclaim(seats, gangs, at, need)
            placed = pick(seats, gangs, at, need, consolidating, take)
        if placed:
            budget -= gangs.gpus[at]
            seat_gang(seats, gangs, at, need, take)


@njit(cache=True)
def _share_if_above(need: Ints, share: Ints) -> Ints:
    """By kind of machine: the whole share where any part of the need is above it."""
    lowered = need.copy()
    for kind in range(len(need)):
        above = False
        for resource in range(1, 4):
            above = above or need[kind, resource] > share[kind, resource]
        if above:
            for resource in range(1, 4):
                lowered[kind, resource] = share[kind, resource]
    return lowered


@njit(cache=True)
def _reclaim(seats: Seats, gangs: Gangs, at: int, need: Ints) -> None:
    """Cut neighbours to their share on the servers that have the GPUs: one for a gang, else the fullest first."""
    gpus, kind_of_node = gangs.gpus[at], gangs.kind_of_node
    allowed = gangs.node_allowed[gangs.constraint[at]]
    nodes = len(kind_of_node)
    if gpus > 1:
        for node in range(nodes):
            if allowed[node] and seats.free[node, 0] >= gpus:
                _reclaim_on(seats, gangs, node, gpus, need[kind_of_node[node]])
                return
    used = np.zeros(nodes, np.bool_)
    while gpus > 0:
        best = -1
        for node in range(nodes):
            open_to_it = allowed[node] and not used[node] and seats.free[node, 0] > 0
            if open_to_it and (best < 0 or seats.free[node, 0] < seats.free[best, 0]):
                best = node
        if best < 0:
            return
        used[best] = True
        part = min(gpus, seats.free[best, 0])
        _reclaim_on(seats, gangs, best, part, need[kind_of_node[best]])
        gpus -= part


@njit(cache=True)
def _reclaim_on(seats: Seats, gangs: Gangs, node: int, gpus: int, need: Ints) -> None:
    """Walk the jobs of a server, fewest servers, most CPUs, most memory a GPU first, until enough is free."""
    short = np.zeros(4, np.int64)
    for resource in range(1, 4):
        short[resource] = max(0, gpus * need[resource] - seats.free[node, resource])
    kind_here = gangs.kind_of_node[node]
    walked = np.zeros(seats.used[0], np.bool_)
    while short.max() > 0:
        victim = _next_victim(seats, node, walked)
        if victim < 0:
            return
        walked[victim] = True
        seat = seats.seats[victim]
        share = gangs.demands.share[gangs.classes[seat["at"]]]
        excess = False
        for resource in range(1, 4):
            above = seat["amount"][resource] - seat["gpus"] * share[kind_here, resource]
            excess = excess or above > 0
            short[resource] = max(0, short[resource] - max(0, above))
        if excess:
            number = seats.first[seat["at"]]
            while number >= 0:
                kind = gangs.kind_of_node[seats.seats[number]["node"]]
                _cut(seats, number, share[kind])
                number = seats.seats[number]["next"]


@njit(cache=True)
def _cut(seats: Seats, number: int, share: Ints) -> None:
    """Lower what a seat has above its share; nobody is raised at a neighbour's cost."""
    seat = seats.seats[number]
    lowered = share.copy()
    for resource in range(1, 4):
        lowered[resource] = min(share[resource], seat["amount"][resource] // seat["gpus"])
    furnish(seats, number, lowered)


@njit(cache=True)
def _next_victim(seats: Seats, node: int, walked: Bools) -> int:
    """The first seat of a server, in the published order, that has not been walked; -1: none."""
    best = -1
    best_servers = 0
    number = seats.first_here[node]
    while number >= 0:
        seat = seats.seats[number]
        if not walked[number]:
            servers = 0
            other = seats.first[seat["at"]]
            while other >= 0:
                servers += 1
                other = seats.seats[other]["next"]
            if best < 0 or _sooner(seat, servers, seats.seats[best], best_servers):
                best, best_servers = number, servers
        number = seat["next_here"]
    return best


@njit(cache=True)
def _sooner(one: Rows, servers: int, other: Rows, other_servers: int) -> bool:
    if servers != other_servers:
        return servers < other_servers
    for resource in range(1, 3):
        mine, theirs = one["amount"][resource] // one["gpus"], other["amount"][resource] // other["gpus"]
        if mine != theirs:
            return bool(mine > theirs)
    return False
