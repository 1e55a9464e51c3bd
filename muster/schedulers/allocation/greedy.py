"""Greedy allocation (Synergy §5.1): the whole best-case demand or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.books import Bools, Floats, Ints
from muster.cluster.ledger import Draft
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs, gangs_of, seat_gang
from muster.schedulers.allocation.pickers import GpuChoice, pick
from muster.schedulers.allocation.seats import MOVABLE, SETTLED, Seats, furnish, open_seats, write_seats
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
        gangs, seats = gangs_of(view), open_seats(view, ranked)
        tried = ranked[chosen[ranked]] if self.listed else ranked
        _place(seats, gangs, tried, self.gpu_choice == "consolidating")
        write_seats(view, draft, seats, ranked, chosen, codes, a, b)


@njit(cache=True)
def _place(seats: Seats, gangs: Gangs, tried: Ints, consolidating: bool) -> None:
    keep_settled(seats, gangs)
    take = np.zeros(len(gangs.kind_of_node), np.int64)
    budget = seats.free[:, 0].sum()
    for at in tried:
        if budget == 0:
            break
        if seats.condition[at] != MOVABLE or gangs.gpus[at] > budget:
            continue
        need = gangs.demands.published[gangs.classes[at]]
        if pick(seats, gangs, at, need, consolidating, take):
            budget -= gangs.gpus[at]
            seat_gang(seats, gangs, at, need, take)


@njit(cache=True)
def keep_settled(seats: Seats, gangs: Gangs) -> None:
    """Furnish the seats of settled jobs with their demand, or with as much of it as the machine has left."""
    for at in range(len(seats.condition)):
        number = seats.first[at]
        while seats.condition[at] == SETTLED and number >= 0:
            seat = seats.seats[number]
            need = gangs.demands.published[gangs.classes[at], gangs.kind_of_node[seat["node"]]].copy()
            for resource in range(1, 4):
                need[resource] = min(need[resource], seats.free[seat["node"], resource] // seat["gpus"])
            furnish(seats, number, need)
            number = seat["next"]
