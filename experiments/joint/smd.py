"""SMD's ground: the workload of `muster reproduce smd`, joint's utility over that of smd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

from experiments.joint.ground import Case, Make
from experiments.papers.smd.cells import cluster_for
from experiments.papers.smd.utility import CAPACITIES, PER_HOUR, arrivals
from muster.report import summarise
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.sweep.statistics import estimate
from muster.workload.generators.smd import generate

RIVAL = "smd"
BAR = 0.99
JOBS = (20, 100)


def utility(
    scheduler: str, jobs: int, capacity: float, per_hour: float | None, seed: int, make: Make = build
) -> float:
    """The utility of all jobs of a run under usage accounting."""
    trace = generate(jobs, per_hour, seed=seed)
    options = Options(restart_cost_seconds=30.0, seed=seed)
    run = simulate(trace, cluster_for(trace.jobs, capacity), make(scheduler, {}), options)
    return float(summarise(run.record)["utility"]["total"])


def cases(order: str) -> Iterator[Case]:
    """All settings, with the utility in place of mean JCT; no job there needs to be timed."""
    for jobs, capacity, per_hour in product(JOBS, CAPACITIES, (None, PER_HOUR)):
        figure = partial(_figure, jobs, capacity, per_hour)
        setting = f"{jobs} jobs, capacity {capacity:g}, {arrivals(per_hour)}"
        yield Case(setting, f"{order}+joint", [RIVAL], figure, what="utility")


def _figure(
    jobs: int, capacity: float, per_hour: float | None, scheduler: str, seed: int, make: Make
) -> float:
    return utility(scheduler, jobs, capacity, per_hour, seed, make)


def lines(orders: Sequence[str], seeds: int, only: str) -> Iterator[str]:
    """Joint's utility over smd's by order and setting, with the 95 % interval of the ratio's mean over the seeds."""
    for jobs, capacity, per_hour in product(JOBS, CAPACITIES, (None, PER_HOUR)):
        setting = f"{jobs} jobs, capacity {capacity:g}, {arrivals(per_hour)}"
        if only not in setting:
            continue
        rival = [utility(RIVAL, jobs, capacity, per_hour, seed) for seed in range(seeds)]
        for order in orders:
            name = f"{order}+joint"
            ours = [utility(name, jobs, capacity, per_hour, seed) for seed in range(seeds)]
            ratio = sum(ours) / sum(rival)
            width = estimate([one / other for one, other in zip(ours, rival, strict=True)]).half_width
            shown = f"{ratio:.4f}" + ("" if width is None else f" ± {width:.4f}")
            yield f"{setting:40} {name:15} {shown}{'' if ratio >= BAR else f'  below {BAR}'}"
