"""A slow, obviously right simulator: whole GPUs only, everybody at full speed, exact fractions, no tricks.

It shares nothing with the package. It asks at every moment at which it might be asked, keeps the GPUs of a
node as a set of numbers, and sorts the whole queue each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

Place = dict[int, set[int]]
"""GPU numbers by node."""


@dataclass
class SlowJob:
    """What was asked, and what happened so far."""

    number: int
    submit: Fraction
    gpus: int
    iterations: Fraction
    priority: int = 0
    pace: Fraction = Fraction(1)  # seconds an iteration
    done: Fraction = Fraction(0)
    attained: Fraction = Fraction(0)
    resumes: Fraction = Fraction(0)
    place: Place | None = None
    ran_before: bool = False
    finish: Fraction | None = None

    @property
    def left(self) -> Fraction:
        return (self.iterations - self.done) * self.pace


ORDERS: dict[str, tuple[Callable[[SlowJob], Fraction], bool]] = {
    "fifo": (lambda job: job.submit, False),
    "fifo-strict": (lambda job: job.submit, False),
    "sjf": (lambda job: job.iterations * job.pace, False),
    "srtf": (lambda job: job.left, True),
    "srsf": (lambda job: job.left * job.gpus, True),
    "las": (lambda job: job.attained, True),
    "priority": (lambda job: Fraction(-job.priority), True),
}
"""Key of each order, and whether it preempts."""

PRICES: dict[str, Callable[[SlowJob], int]] = {
    "srtf": lambda job: 1,
    "srsf": lambda job: job.gpus,
    "las": lambda job: job.gpus,
}
"""By how much a running job's key is better, for each second that an interruption costs."""
WORK_PER_INTERRUPTION = 12
"""Times its interruption cost that a job works after each start before it may be stopped."""


class Slow:
    """One run. `gathered`: a gang only on as few nodes as could ever hold it; otherwise anywhere."""

    def __init__(
        self, jobs: list[SlowJob], nodes: Sequence[int], order: str, *, gathered: bool, restart: int = 0
    ) -> None:
        self.jobs = sorted(jobs, key=lambda job: (job.submit, job.number))
        self.sizes = nodes
        self.free = [set(range(size)) for size in nodes]
        self.key, self.preemptive = ORDERS[order]
        self.strict = order == "fifo-strict"
        self.gathered, self.restart = gathered, restart
        self.price: Callable[[SlowJob], int] = PRICES.get(order, lambda job: 0)
        self.quantum = 300 if order == "las" else 0

    def by_rounds(self, seconds: int, *, whole: bool = False) -> list[SlowJob]:
        """Decide at 0, seconds, 2 x seconds, ..."""
        now = Fraction(0)
        while any(job.finish is None for job in self.jobs):
            self.decide(now)
            self.advance(now, now + seconds, whole=whole)
            now += seconds
        return self.jobs

    def by_events(self, quantum: int | None = None) -> list[SlowJob]:
        """Decide when a job comes or goes, and a quantum after each decision that left somebody waiting."""
        now, self.quantum = Fraction(0), quantum or 0
        while any(job.finish is None for job in self.jobs):
            self.decide(now)
            moments = [job.submit for job in self.jobs if job.submit > now]
            moments += [max(now, job.resumes) + job.left for job in self.running()]
            if any(job.place is None for job in self.present(now)):
                ends = [self.protected_until(job) for job in self.running()]
                moments += [now + quantum] if quantum else [end for end in ends if end > now]
            self.advance(now, min(moments))
            now = min(moments)
        return self.jobs

    def protected_until(self, job: SlowJob) -> Fraction:
        if not self.restart:
            return job.resumes
        return job.resumes + max(WORK_PER_INTERRUPTION * self.restart, self.quantum)

    def ranking_key(self, job: SlowJob) -> tuple[Fraction, Fraction, int]:
        price = self.restart * self.price(job) if job.place is not None and self.preemptive else 0
        return (self.key(job) - price, job.submit, job.number)

    def present(self, now: Fraction) -> list[SlowJob]:
        return [job for job in self.jobs if job.submit <= now and job.finish is None]

    def running(self) -> list[SlowJob]:
        return [job for job in self.jobs if job.place is not None]

    def advance(self, now: Fraction, until: Fraction, *, whole: bool = False) -> None:
        for job in self.running():
            job.attained += job.gpus * (until - now)
            begins = max(now, min(job.resumes, until))
            if whole:
                job.done = min(job.iterations, job.done + floor((until - begins) / job.pace))
                end = until
            else:
                end = begins + job.left
                job.done = min(job.iterations, job.done + (until - begins) / job.pace)
            if job.done == job.iterations:
                job.finish = end
                self.give_back(job)

    def decide(self, now: Fraction) -> None:
        ranked = sorted(self.present(now), key=self.ranking_key)
        if all(job.place is not None for job in ranked):
            return
        before = {job.number: job.place for job in ranked if job.place is not None}
        chosen = self.choose(ranked, now) if self.preemptive else {job.number for job in ranked}
        for job in ranked:
            if job.place is not None and job.number not in chosen:
                self.give_back(job)
        firsts = [job for job in ranked if job.number in chosen and job.place is None]
        others = [job for job in ranked if job.number not in chosen]
        for job in firsts + others:
            old = before.get(job.number)
            keeps = old is not None and all(gpus <= self.free[node] for node, gpus in old.items())
            place = old if keeps else self.find(job.gpus)
            if place is not None:
                self.take(job, place)
            elif self.strict:
                break
        for job in self.running():
            if job.place != before.get(job.number):
                job.resumes = now + (self.restart if job.ran_before else 0)
                job.ran_before = True

    def choose(self, ranked: list[SlowJob], now: Fraction) -> set[int]:
        """The protected jobs, then in their order all that the GPUs of the cluster suffice for."""
        kept = [job for job in self.running() if now < self.protected_until(job)]
        chosen, budget = {job.number for job in kept}, sum(self.sizes) - sum(job.gpus for job in kept)
        for job in ranked:
            if job.number not in chosen and job.gpus <= budget:
                chosen.add(job.number)
                budget -= job.gpus
        return chosen

    def find(self, gpus: int) -> Place | None:
        """The fullest node that holds all; else the emptiest nodes, the rest on the fullest that takes it."""
        if sum(map(len, self.free)) < gpus:
            return None
        place: Place = {}
        while gpus:
            left = [node for node in range(len(self.free)) if node not in place]
            enough = [node for node in left if len(self.free[node]) >= gpus]
            if enough:
                node = min(enough, key=lambda node: (len(self.free[node]), node))
            else:
                node = max(left, key=lambda node: (len(self.free[node]), -node))
            place[node] = set(sorted(self.free[node])[:gpus])
            gpus -= len(place[node])
        if self.gathered and len(place) > self.fewest_nodes(sum(map(len, place.values()))):
            return None
        return place

    def fewest_nodes(self, gpus: int) -> int:
        largest = sorted(self.sizes, reverse=True)
        return next(count for count in range(1, len(largest) + 1) if sum(largest[:count]) >= gpus)

    def take(self, job: SlowJob, place: Place) -> None:
        job.place = place
        for node, gpus in place.items():
            assert gpus <= self.free[node]
            self.free[node] -= gpus

    def give_back(self, job: SlowJob) -> None:
        assert job.place is not None
        for node, gpus in job.place.items():
            self.free[node] |= gpus
        job.place = None
