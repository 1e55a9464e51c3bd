"""Greedy allocation (Synergy §5.1): the whole best-case demand or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.books import Books, Bools, Floats, Ints
from muster.cluster.ledger import Transaction
from muster.compiling import njit
from muster.schedulers.allocation.gangs import Gangs, gangs_of, seat_gang
from muster.schedulers.allocation.pickers import GpuChoice, pick
from muster.schedulers.allocation.seats import MOVABLE, SETTLED, Seats, keep_amounts, open_seats, write_seats
from muster.schedulers.allocation.tune import set_level
from muster.schedulers.contract import View
from muster.schedulers.honours import CPUS_AND_MEMORY
from muster.schedulers.parts import Allotment, setting


@dataclass(frozen=True)
class Greedy(Allotment):
    """The whole best-case demand by first fit, everybody anew; whose demand fits nowhere is passed (Synergy)."""

    name: ClassVar[str] = "greedy"
    rests: ClassVar[bool] = False
    honours: ClassVar[frozenset[str]] = CPUS_AND_MEMORY
    by_order: ClassVar[bool] = True

    gpu_choice: GpuChoice = setting("first-fit", "how servers are chosen: first-fit or consolidating")
    listed: bool = setting(
        False, "only jobs whose GPUs fit by the walk in order are tried, as under the published LAS"
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
        """First fit in order; running jobs that may not move keep what they have."""
        gangs, seats = gangs_of(view), open_seats(view, transaction, ranked, chosen)
        tried = ranked[chosen[ranked]] if self.listed else ranked
        _place(view.ledger.books, view.jobs.index, seats, gangs, tried, self.gpu_choice == "consolidating")
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
        if pick(seats, gangs, at, need, consolidating, take):
            budget -= gangs.gpus[at]
            seat_gang(seats, gangs, at, need, take)


@njit(cache=True)
def keep_settled(books: Books, index: Ints, seats: Seats, gangs: Gangs) -> None:
    """Settled jobs keep what they have; those with less than their demand get all of it where it is free."""
    keep_amounts(books, index, seats)
    for at in range(len(index)):
        if seats.condition[at] != SETTLED:
            continue
        need = gangs.demands.published[gangs.classes[at]]
        short = 0
        number = seats.first[at]
        while number >= 0:
            seat = seats.seats[number]
            node = seat["node"]
            for resource in range(1, 4):
                more = seat["gpus"] * need[gangs.kind_of_node[node], resource] - seat["amount"][resource]
                short += more > seats.free[node, resource]
            number = seat["next"]
        if not short:
            set_level(seats, gangs, at, need)
