"""As many servers as workers: the baselines of SMD and Optimus that choose jobs and not shapes.

`equal-1to1` stands for SMD's baseline "ESW", whose meaning is not known to us: the mapping is a guess.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from muster.cluster.books import Floats, Ints
from muster.schedulers.contract import State
from muster.schedulers.workers_and_servers.interval import Answer, AtIntervals
from muster.schedulers.workers_and_servers.question import Question
from muster.workload.sized import RESOURCES


@dataclass(frozen=True)
class Equal(AtIntervals):
    """As many workers as servers, as many as the owner allows; first come, first served, whoever fits."""

    name: ClassVar[str] = "equal-1to1"
    needs: ClassVar[tuple[str, ...]] = ()

    def answer(self, question: Question, memory: State) -> Answer:
        """Running jobs keep what they hold; then by arrival."""
        workers, servers = largest_pairs(question)
        running = question.workers > 0
        workers[running], servers[running] = question.workers[running], question.servers[running]
        return first_fit(question, workers, servers, np.lexsort((question.arrival, ~running)))


@dataclass(frozen=True)
class FirstFit(AtIntervals):
    """Each job its own best workers and servers; first come, first served, whoever fits."""

    name: ClassVar[str] = "first-fit-sized"

    def answer(self, question: Question, memory: State) -> Answer:
        """Running jobs keep what they hold; then by arrival."""
        pairs = question.choices
        best = question.fastest
        running = question.workers > 0
        workers, servers = question.workers.copy(), question.servers.copy()
        waiting = best[~running[pairs.job[best]]]
        workers[pairs.job[waiting]] = pairs.workers[waiting]
        servers[pairs.job[waiting]] = pairs.servers[waiting]
        return first_fit(question, workers, servers, np.lexsort((question.arrival, ~running)))


@dataclass(frozen=True)
class Tetris(AtIntervals):
    """Tetris over pairs as equal-1to1 has them: alignment with what is free, and little work left, first."""

    name: ClassVar[str] = "tetris-1to1"

    def answer(self, question: Question, memory: State) -> Answer:
        """Score anew after each job that was taken: demand and free in shares of the capacity (Tetris §3.3)."""
        workers, servers = largest_pairs(question)
        usage = question.usage(np.arange(len(question)), workers, servers)
        capacity = np.where(question.capacity > 0, question.capacity, 1.0)
        shares = usage / capacity
        left = np.ones(len(capacity))
        work = shares.sum(axis=1) * question.remaining * question.iteration_seconds(workers, servers)
        waits = np.ones(len(question), bool)
        taken = np.zeros(len(question), bool)
        while waits.any():
            waits &= (shares <= left + 1e-9).all(axis=1)
            alignment = shares @ left
            total_work = work[waits].sum()
            # The weight makes both count alike on average over those who still fit.
            weight = alignment[waits].sum() / total_work if total_work > 0 else 0.0
            best = int(np.where(waits, alignment - weight * work, -np.inf).argmax())
            if not waits[best]:
                break
            taken[best], waits[best] = True, False
            left -= shares[best]
        return Answer(np.where(taken, workers, 0), np.where(taken, servers, 0))


@dataclass(frozen=True)
class Drf(AtIntervals):
    """DRF over pairs of a worker and a server: the job with the least dominant share gets the next pair."""

    name: ClassVar[str] = "drf-1to1"
    needs: ClassVar[tuple[str, ...]] = ()

    def answer(self, question: Question, memory: State) -> Answer:
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
        return Answer(workers, workers * paired)


def largest_pairs(question: Question) -> tuple[Ints, Ints]:
    """Workers and as many servers, the most that each owner allows; a ring's workers alone."""
    demands, ring = question.demands, question.is_ring
    pair = demands.worker + np.where(ring[:, None], 0.0, demands.server)
    most = np.floor(demands.most(pair)).astype(np.int64)
    workers = np.maximum(most, question.least_workers)
    return workers, np.where(ring, 0, np.maximum(most, 1))


def first_fit(question: Question, workers: Ints, servers: Ints, order: Ints) -> Answer:
    """In order, whoever fits in what is left."""
    usage: Floats = question.usage(np.arange(len(question)), workers, servers)
    left = question.capacity[: len(RESOURCES)] * (1 + 1e-9)
    taken = np.zeros(len(question), bool)
    for job in order.tolist():
        if workers[job] and (usage[job] <= left).all():
            left -= usage[job]
            taken[job] = True
    return Answer(np.where(taken, workers, 0), np.where(taken, servers, 0))
