"""Greedy allocation (Synergy §5.1): the whole best-case demand or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from muster.cluster.books import Bools, Floats, Ints
from muster.cluster.ledger import Draft
from muster.schedulers.allocation.pickers import GpuChoice, pick
from muster.schedulers.allocation.seats import MOVABLE, SETTLED, Seats, furnish, open_seats, sit, write_seats
from muster.schedulers.contract import View
from muster.schedulers.parts import Allotment, setting


@dataclass(frozen=True)
class Greedy(Allotment):
    """The whole best-case demand by first fit, everybody anew; whose demand fits nowhere is passed (Synergy)."""

    name: ClassVar[str] = "greedy"
    rests: ClassVar[bool] = False
    by_order: ClassVar[bool] = True

    gpu_choice: GpuChoice = setting("first-fit", "how servers are chosen: first-fit or consolidating")
    listed: bool = setting(
        False, "only jobs whose GPUs fit by the walk in order are tried, as under the published LAS"
    )

    def allot(
        self, view: View, draft: Draft, ranked: Ints, chosen: Bools, codes: Ints, a: Floats, b: Floats
    ) -> None:
        """First fit in order; running jobs that may not move keep what they have."""
        jobs, wants = view.jobs, view.wants
        classes, demands = wants.of(jobs.model, jobs.gpus)
        seats = open_seats(view, ranked)
        _place(
            seats,
            ranked[chosen[ranked]] if self.listed else ranked,
            jobs.gpus,
            classes,
            demands.published,
            wants.kind_of_node,
            view.table.node_allowed,
            jobs.constraint,
            self.gpu_choice == "consolidating",
        )
        write_seats(view, draft, seats, ranked, chosen, codes, a, b)


@njit(cache=True)
def _place(
    seats: Seats,
    tried: Ints,
    gpus: Ints,
    classes: Ints,
    demand: Ints,
    kind_of_node: Ints,
    node_allowed: Bools,
    constraint: Ints,
    consolidating: bool,
) -> None:
    keep_settled(seats, classes, demand, kind_of_node)
    take = np.zeros(len(kind_of_node), np.int64)
    budget = seats.free[:, 0].sum()
    for at in tried:
        if budget == 0:
            break
        if seats.condition[at] != MOVABLE or gpus[at] > budget:
            continue
        need = demand[classes[at]]
        if pick(seats, node_allowed[constraint[at]], gpus[at], need, kind_of_node, consolidating, take):
            budget -= gpus[at]
            seat_gang(seats, at, need, kind_of_node, take)


@njit(cache=True)
def keep_settled(seats: Seats, classes: Ints, demand: Ints, kind_of_node: Ints) -> None:
    """Furnish the seats of settled jobs with their demand, or with as much of it as the machine has left."""
    for at in range(len(seats.condition)):
        number = seats.first[at]
        while seats.condition[at] == SETTLED and number >= 0:
            seat = seats.seats[number]
            need = demand[classes[at], kind_of_node[seat["node"]]].copy()
            for resource in range(1, 4):
                need[resource] = min(need[resource], seats.free[seat["node"], resource] // seat["gpus"])
            furnish(seats, number, need)
            number = seat["next"]


@njit(cache=True)
def seat_gang(seats: Seats, at: int, need: Ints, kind_of_node: Ints, take: Ints) -> None:
    """Seat a job on the machines that were chosen for it."""
    for node in range(len(take)):
        if take[node] > 0:
            furnish(seats, sit(seats, at, node, take[node]), need[kind_of_node[node]])
