"""How far whole runs stay below a bound on every schedule, those that stop and resize jobs freely included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.papers.experiment import Effort, Experiment, Findings, Result, Row, Verdict
from experiments.papers.smd.cells import (
    PUBLISHED,
    Cell,
    cluster_for,
    first_question,
    scheduler_named,
    utility_alone,
)
from experiments.papers.smd.utility import PER_HOUR, Place, place_name, shown
from muster.sweep.statistics import estimate

FloatArray = NDArray[np.float64]

PLACES: tuple[Place, ...] = ((20, 0.3, None), (20, 0.3, PER_HOUR), (100, 0.3, None), (100, 0.3, PER_HOUR))
SEEDS, QUICK_SEEDS = 10, 2
FINE_SECONDS, FINE_SLOTS, GROWTH, SLOTS = 900.0, 64, 1.15, 96
STEPS = 100


def whole_run_bound(question: Any, steps: int = STEPS) -> float:
    """No schedule of these jobs has more utility in all: the Lagrangian bound of a fluid relaxation.

    Time is cut into slots. A price of each resource in each slot buys what a job holds. For any prices, no schedule
    is worth more than the capacity at its prices plus, job by job, the best utility less the least cost. The least
    cost by a slot takes each slot up to its end at the cheapest size, at the speed of the fastest one; a completion
    within a slot counts as one at its start. Subgradient steps choose the prices.
    """
    starts, ends = _slots(question)
    lengths = ends - starts
    gains = _gains(question, starts)
    capacity = np.where(question.capacity > 0, question.capacity, 1.0)
    prices = np.zeros((SLOTS, len(capacity)))
    best, size = np.inf, float(gains.max(initial=0.0)) / SLOTS
    for step in range(steps):
        value, use = _served(question, capacity, prices, starts, lengths, gains)
        total = value + float(prices.sum())
        best = min(best, total)
        slope = 1.0 - use
        norm = float((slope**2).sum())
        if norm == 0.0:
            break
        prices = np.maximum(prices - size / (1.0 + step / 15.0) * slope / np.sqrt(norm / slope.size), 0.0)
    return best


def _slots(question: Any) -> tuple[FloatArray, FloatArray]:
    """Starts and ends. The last slot has room for all work of all jobs: no schedule gains by going on after it."""
    ends = np.cumsum(
        np.append(
            np.full(FINE_SLOTS, FINE_SECONDS), FINE_SECONDS * GROWTH ** np.arange(1.0, SLOTS - FINE_SLOTS + 1)
        )
    )
    all_work = float((question.remaining * question.best_seconds).sum())
    ends[-1] = max(ends[-1], max(ends[-2], float(question.arrival.max(initial=0.0))) + all_work)
    return np.append(0.0, ends[:-1]), ends


def _gains(question: Any, starts: FloatArray) -> FloatArray:
    """(jobs, slots) the most utility of a completion in each slot; below 0 before the job could have come and gone."""
    jobs = np.repeat(np.arange(len(question)), len(starts))
    soonest = question.remaining * question.best_seconds
    completion = np.maximum(starts[None, :] - question.arrival[:, None], soonest[:, None])
    gains: FloatArray = question.worth(jobs, completion.ravel()).reshape(len(question), -1)
    return gains


def _served(
    question: Any,
    capacity: FloatArray,
    prices: FloatArray,
    starts: FloatArray,
    lengths: FloatArray,
    gains: FloatArray,
) -> tuple[float, FloatArray]:
    """The best utility less cost of all jobs together, and which share of each slot's resources it takes."""
    pairs = question.choices
    shares = question.usage(pairs.job, pairs.workers, pairs.servers) / capacity
    use, value = np.zeros_like(prices), 0.0
    for job in range(len(question)):
        mine = pairs.job == job
        # Seconds at a size, for a second of work at the fastest one.
        slower = pairs.seconds[mine] / question.best_seconds[job]
        held = shares[mine] * slower[:, None]
        cost = held @ (prices / lengths[:, None]).T
        cheapest = cost.argmin(axis=0)
        least = cost[cheapest, np.arange(len(starts))]
        room = np.clip(starts + lengths - np.maximum(starts, question.arrival[job]), 0.0, None)
        work = float(question.remaining[job] * question.best_seconds[job])
        order = np.argsort(least, kind="stable")
        # (last slot, slots by cost): what is worked where, if nothing is worked after the last slot.
        allowed = order[None, :] <= np.arange(len(starts))[:, None]
        offered = np.where(allowed, room[order], 0.0)
        before = np.cumsum(offered, axis=1) - offered
        worked = np.clip(work - before, 0.0, offered)
        done = worked.sum(axis=1) >= work * (1 - 1e-9)
        net = np.where(done, gains[job] - worked @ least[order], -np.inf)
        last = int(net.argmax())
        if net[last] > 0:
            value += float(net[last])
            seconds = worked[last][np.argsort(order, kind="stable")]
            use += held[cheapest] * (seconds / lengths)[:, None]
    return value, use


@dataclass(frozen=True)
class WholeRun:
    """One trace: smd's run, and the bound on all schedules of it."""

    jobs: int
    capacity: float
    per_hour: float | None
    seed: int

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        return asdict(self)

    def run(self) -> Mapping[str, Any]:
        """Utility of smd under both objectives, and the bound, as shares of what the jobs are worth alone."""
        from muster.workload.generators.smd import generate

        trace = generate(self.jobs, self.per_hour, seed=self.seed)
        cluster = cluster_for(trace.jobs, self.capacity)
        asked = first_question(trace, cluster, scheduler_named("smd", "usage"), layers_known=True)
        found = {
            name: Cell(name, "usage", self.jobs, self.capacity, self.per_hour, self.seed).run()["utility"]
            for name in ("smd", PUBLISHED)
        }
        bound = min(whole_run_bound(asked) / utility_alone(trace, asked.remaining * asked.best_seconds), 1.0)
        return {"utility": found["smd"], "published": found[PUBLISHED], "bound": bound}


def _pieces(effort: Effort) -> Sequence[WholeRun]:
    seeds = range(QUICK_SEEDS if effort.quick else SEEDS)
    places = PLACES[:2] if effort.quick else PLACES
    return [WholeRun(*place, seed) for place in places for seed in seeds]


def _read(effort: Effort, results: Sequence[Result]) -> Findings:
    seeds = QUICK_SEEDS if effort.quick else SEEDS
    rows = []
    for at, place in enumerate(PLACES[:2] if effort.quick else PLACES):
        runs = results[at * seeds : (at + 1) * seeds]
        bound = shown(estimate([run["bound"] for run in runs]))
        ratio = estimate([run["utility"] / run["published"] for run in runs])
        found = {f"utility over {PUBLISHED}": (f"{ratio.mean:.3f}", "")}
        for key, name in (("utility", "smd"), ("published", PUBLISHED)):
            utility = shown(estimate([run[key] for run in runs]))
            below = estimate([1 - run[key] / run["bound"] for run in runs])
            remark = f"utility {utility} and bound {bound} of the utility alone; {seeds} seeds; no figure is published"
            found[f"{name} below the bound of the whole run"] = (f"{below.mean:.1%}", remark)
        rows += [
            Row(f"{what}: {place_name(place)}", "", "", value, Verdict.OTHER_SETTING, remark)
            for what, (value, remark) in found.items()
        ]
    return Findings(rows)


WHOLE_RUN = Experiment(
    "whole-run",
    "Whole runs against a bound on every schedule",
    "Total utility of smd beside a bound that no schedule of the same jobs exceeds, whatever it stops or resizes, with "
    "all arrivals known and no restarts. Part of the distance is the bound's: it lets jobs split over time and nodes.",
    _pieces,
    _read,
)
