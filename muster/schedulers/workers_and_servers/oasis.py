"""OASiS: a job is admitted when it comes, if it is worth its price, and keeps its plan (arXiv 1801.00936).

Prices of a slot rise from L to U with what is used of it: p = L (U / L)^(used / capacity). A job's plan is a size
and a first slot; it has the most utility less cost, and a job whose best plan has none is never served.

Where ours is coarser than the paper: prices are of the cluster and not of each server, a plan has one size for all
its slots (the paper's dynamic program may vary it), and U and L are taken over the jobs present.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from muster.cluster.ledger_arrays import Floats
from muster.cluster.portable_math import power
from muster.schedulers.contract import State
from muster.schedulers.parts import check_seconds, setting
from muster.schedulers.workers_and_servers.interval import PeriodicScheduler, SizingSolution
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem

LEAST_PRICE_RATIO = 1e-6
"""L over U where the worst utility is nothing."""


@dataclass(frozen=True)
class Booking:
    """What an admitted job was promised."""

    first_slot: int
    end_slot: int
    workers: int
    servers: int


REFUSED = Booking(0, 0, 0, 0)


@dataclass(frozen=True)
class Oasis(PeriodicScheduler):
    """OASiS: admission at arrival by primal-dual prices, with a plan of slots that is kept."""

    name: ClassVar[str] = "oasis"
    weighs_interruptions: ClassVar[bool] = True

    slot_seconds: float = setting(3600.0, "length of a slot of its plans")
    horizon_slots: int = setting(240, "slots that plans may reach ahead")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seconds(self, "slot_seconds", finite=True)
        if self.horizon_slots < 1:
            raise ValueError("horizon_slots: allowed: a whole number from 1 on")

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """Admit or refuse the new jobs that have a size now; then each job booked for this slot, or late, holds its."""
        slot = int(question.now // self.slot_seconds)
        booked = {job: memory[job] for job in question.index.tolist() if memory and job in memory}
        used = np.zeros((self.horizon_slots, len(question.capacity)))
        for at, job in enumerate(question.index.tolist()):
            if job in booked:
                _book(question, at, booked[job], slot, used)
        # While nodes are down, some jobs have no size at all.
        possible = np.unique(question.choices.job).tolist()
        new = [at for at in possible if int(question.index[at]) not in booked]
        if new:
            lowest, highest = self._price_range(question)
            for at in new:
                booking = self._best_plan(question, at, slot, used, lowest, highest)
                booked[int(question.index[at])] = booking
                _book(question, at, booking, slot, used)
        due = [booked.get(job, REFUSED) for job in question.index.tolist()]
        now = [booking.first_slot <= slot for booking in due]
        workers = np.array([booking.workers for booking in due]) * now
        return SizingSolution(workers, np.array([booking.servers for booking in due]) * now, memory=booked)

    def beside_pinned(self, question: SizingProblem, memory: State) -> SizingSolution:
        """Pinned jobs count in the slots ahead as their plans say."""
        answer = self.answer(question, memory)
        workers = np.where(question.pinned, question.workers, answer.workers)
        servers = np.where(question.pinned, question.servers, answer.servers)
        return replace(answer, workers=workers, servers=servers)

    def _price_range(self, question: SizingProblem) -> tuple[Floats, Floats]:
        """L and U of each resource, utility a unit and slot, over the jobs present."""
        pairs = question.choices
        seconds = question.remaining[pairs.job] * pairs.seconds
        usage = question.usage(pairs.job, pairs.workers, pairs.servers)
        worth = question.worth(pairs.job, question.now - question.arrival[pairs.job] + seconds)
        with np.errstate(divide="ignore", invalid="ignore"):
            a_unit = np.where(usage > 0, worth[:, None] / usage, 0.0)
        highest: Floats = np.maximum(a_unit.max(axis=0), 1e-12)
        # The worst of a job is the end of the horizon, spread over all that it would hold until then, over 4.
        horizon = np.full(len(pairs.job), self.horizon_slots * self.slot_seconds)
        held = (usage / np.where(question.capacity > 0, question.capacity, 1.0)).sum(axis=1)
        slots = np.ceil(seconds / self.slot_seconds)
        worst = question.worth(pairs.job, horizon) / (4 * np.maximum(held * slots, 1e-12))
        lowest = worst.min() / np.where(question.capacity > 0, question.capacity, 1.0)
        return np.clip(lowest, LEAST_PRICE_RATIO * highest, highest / np.e), highest

    def _best_plan(
        self, question: SizingProblem, at: int, slot: int, used: Floats, lowest: Floats, highest: Floats
    ) -> Booking:
        """The plan of most utility less cost; refused where none is above 0."""
        pairs = question.choices
        capacity = question.capacity
        share = used / np.where(capacity > 0, capacity, 1.0)
        prices = lowest * power(highest / lowest, share)
        so_far = np.vstack([np.zeros(len(capacity)), np.cumsum(prices, axis=0)])
        best, plan = 0.0, REFUSED
        mine = np.flatnonzero(pairs.job == at)
        usage = question.usage(pairs.job[mine], pairs.workers[mine], pairs.servers[mine])
        for choice, needs in zip(mine.tolist(), usage, strict=True):
            seconds = float(question.remaining[at] * pairs.seconds[choice])
            slots = ceil(seconds / self.slot_seconds)
            if slots > self.horizon_slots:
                continue
            fits = (
                sliding_window_view(used, slots, axis=0).max(axis=2) + needs <= capacity * (1 + 1e-9)
            ).all(axis=1)
            first = np.arange(len(fits))
            starts = np.maximum((slot + first) * self.slot_seconds, question.now)
            completion = starts - question.arrival[at] + seconds
            cost = (so_far[slots:] - so_far[:-slots]) @ needs
            worth = question.worth(np.full(len(fits), at), completion)
            surplus = np.where(fits, worth - cost, -np.inf)
            start = int(surplus.argmax())
            if surplus[start] > best:
                best = float(surplus[start])
                plan = Booking(
                    slot + start,
                    slot + start + slots,
                    int(pairs.workers[choice]),
                    int(pairs.servers[choice]),
                )
        return plan


def _book(question: SizingProblem, at: int, booking: Booking, slot: int, used: Floats) -> None:
    """Count a booking in the slots from now on; a job that is late holds this slot too."""
    if booking.workers:
        usage = question.usage(np.array([at]), np.array([booking.workers]), np.array([booking.servers]))[0]
        used[max(booking.first_slot - slot, 0) : max(booking.end_slot - slot, 1)] += usage
