"""As many servers as workers: the baselines of SMD and Optimus that choose jobs and not shapes.

`equal-1to1` stands for SMD's baseline "ESW", whose meaning is not known to us: the mapping is a guess.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.contract import State
from muster.schedulers.workers_and_servers.interval import PeriodicScheduler, SizingSolution
from muster.schedulers.workers_and_servers.sizing_problem import SizingProblem
from muster.workload.sized import RESOURCES


@dataclass(frozen=True)
class Equal(PeriodicScheduler):
    """As many workers as servers, as many as the owner allows; first come, first served, each that fits."""

    name: ClassVar[str] = "equal-1to1"
    needs: ClassVar[tuple[str, ...]] = ()

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """Running jobs keep what they hold; then by arrival."""
        workers, servers = largest_pairs(question)
        running = question.workers > 0
        workers[running], servers[running] = question.workers[running], question.servers[running]
        return first_fit(question, workers, servers, np.lexsort((question.arrival, ~running)))


@dataclass(frozen=True)
class FirstFitPairs(PeriodicScheduler):
    """Each job its own best workers and servers; first come, first served, each that fits."""

    name: ClassVar[str] = "first-fit-sized"

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """Running jobs keep what they hold; then by arrival."""
        workers, servers, running = best_or_held(question)
        return first_fit(question, workers, servers, np.lexsort((question.arrival, ~running)))


@dataclass(frozen=True)
class DensityFirstFit(PeriodicScheduler):
    """Each job its own best workers and servers; the most utility for its dominant share first, whichever fits."""

    name: ClassVar[str] = "density-first-fit"

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """Running jobs keep what they hold; then by utility now over the dominant share."""
        workers, servers, running = best_or_held(question)
        job = np.arange(len(question))
        seconds = question.remaining * question.iteration_seconds(workers, servers)
        utility = question.worth(job, question.now - question.arrival + seconds)
        share = question.shares(question.usage(job, workers, servers))
        return first_fit(
            question, workers, servers, np.lexsort((-utility / np.maximum(share, 1e-12), ~running))
        )


@dataclass(frozen=True)
class TetrisPairs(PeriodicScheduler):
    """Tetris over pairs of a worker and a server: alignment with what is free, and little work left, first."""

    name: ClassVar[str] = "tetris-1to1"

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """The best job takes pairs while they fit, then scores count again; in shares of the capacity (Tetris 3.3)."""
        jobs = np.arange(len(question))
        most, _ = largest_pairs(question)
        paired = (~question.is_ring).astype(np.int64)
        capacity = np.where(question.capacity > 0, question.capacity, 1.0)
        pair = question.usage(jobs, np.ones(len(jobs), np.int64), paired) / capacity
        left = np.where(question.capacity > 0, 1.0, 0.0) + 1e-9
        work = question.usage(jobs, most, most * paired) / capacity
        remaining = work.sum(axis=1) * question.remaining * question.iteration_seconds(most, most * paired)
        workers = np.zeros(len(jobs), np.int64)
        waits = np.ones(len(jobs), bool)
        # A reservation is charged once, whatever the number of pairs.
        least = pair * (1 if question.reserved else question.least_workers[:, None])
        while True:
            waits &= (least <= left).all(axis=1)
            if not waits.any():
                return SizingSolution(workers, workers * paired)
            alignment = pair @ left
            total = remaining[waits].sum()
            # The weight makes both count alike on average over those that still fit.
            weight = alignment[waits].sum() / total if total > 0 else 0.0
            best = int(np.where(waits, alignment - weight * remaining, -np.inf).argmax())
            needs = pair[best] > 0
            room = most[best] if question.reserved else int((left[needs] / pair[best, needs]).min())
            workers[best] = min(most[best], room)
            waits[best] = False
            left = left - pair[best] * (1 if question.reserved else workers[best])


@dataclass(frozen=True)
class DrfPairs(PeriodicScheduler):
    """DRF over pairs of a worker and a server: the job with the least dominant share gets the next pair."""

    name: ClassVar[str] = "drf-1to1"
    needs: ClassVar[tuple[str, ...]] = ()

    def answer(self, question: SizingProblem, memory: State) -> SizingSolution:
        """Progressive filling; a job whose next pair does not fit keeps what it has (Ghodsi 2011)."""
        jobs = len(question)
        most, _ = largest_pairs(question)
        paired = (~question.is_ring).astype(np.int64)
        each = question.usage(np.arange(jobs), np.ones(jobs, np.int64), paired)
        share = question.shares(each)
        left = question.capacity * (1 + 1e-9)
        workers = np.zeros(jobs, np.int64)
        heap = [(0.0, job) for job in range(jobs)]
        while heap:
            _, job = heapq.heappop(heap)
            step = int(question.least_workers[job]) if workers[job] == 0 else 1
            charge = each[job] * (1 if question.reserved else step)
            # A reservation is charged once, with the first pair.
            if question.reserved and workers[job] > 0:
                charge = np.zeros_like(left)
            if workers[job] + step > most[job] or (charge > left).any():
                continue
            left -= charge
            workers[job] += step
            heapq.heappush(heap, (share[job] * float(workers[job]), job))
        return SizingSolution(workers, workers * paired)


def largest_pairs(question: SizingProblem) -> tuple[Ints, Ints]:
    """Workers and as many servers, the most that each owner allows; a ring's workers alone."""
    demands, ring = question.demands, question.is_ring
    pair = demands.worker + np.where(ring[:, None], 0.0, demands.server)
    most = np.floor(demands.most(pair)).astype(np.int64)
    workers = np.maximum(most, question.least_workers)
    return workers, np.where(ring, 0, np.maximum(most, 1))


def best_or_held(question: SizingProblem) -> tuple[Ints, Ints, Bools]:
    """Workers and servers of each job: held ones of a running job, else its fastest choice; which jobs run."""
    pairs, best = question.choices, question.fastest
    running = question.workers > 0
    workers, servers = question.workers.copy(), question.servers.copy()
    waiting = best[~running[pairs.job[best]]]
    workers[pairs.job[waiting]], servers[pairs.job[waiting]] = pairs.workers[waiting], pairs.servers[waiting]
    return workers, servers, running


def first_fit(question: SizingProblem, workers: Ints, servers: Ints, order: Ints) -> SizingSolution:
    """In order, each that fits in what is left."""
    usage: Floats = question.usage(np.arange(len(question)), workers, servers)
    left = question.capacity[: len(RESOURCES)] * (1 + 1e-9)
    taken = np.zeros(len(question), bool)
    for job in order.tolist():
        if workers[job] and (usage[job] <= left).all():
            left -= usage[job]
            taken[job] = True
    return SizingSolution(np.where(taken, workers, 0), np.where(taken, servers, 0))
