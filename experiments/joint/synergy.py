"""Synergy's ground: jobs of its ten models where CPUs, memory or both are scarce, each against the best rival."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from experiments.joint.ground import Case, Make, geometric_mean
from muster.cluster.shipped import parse_cluster
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.sweep.statistics import estimate
from muster.workload.generators.synergy import generate

RIVALS = (
    "greedy",
    "tune",
    "tune-published",
    "tune-plus",
    "proportional",
    "requested+spread",
)
JOINT = "joint"
BAR = 1.005
JOBS, SERVERS, FIRST_SEED = 300, 6, 101


@dataclass(frozen=True)
class Setting:
    """A workload on servers of eight GPUs."""

    cpus: int
    memory_gb: int
    split: tuple[int, int, int]
    load: float
    """Jobs an hour."""
    gangs: bool

    def __str__(self) -> str:
        """The setting in one phrase."""
        sizes = "1 to 16 GPUs" if self.gangs else "1 GPU"
        return f"{self.cpus} CPUs, {self.memory_gb} GB, {','.join(map(str, self.split))}, {self.load:g}/h, {sizes}"

    def mean_jct(self, scheduler: str, seed: int, make: Make = build, knowledge: str = "oracle") -> float:
        """Seconds, with the default restart cost."""
        trace = generate(JOBS, self.load, self.split, self.gangs, False, seed)
        cluster = parse_cluster(f"{SERVERS}x8gpu,{self.cpus}cpu,{self.memory_gb}gb")
        options = Options(knowledge=knowledge, seed=seed)
        jobs = simulate(trace, cluster, make(scheduler, {}), options).record.jobs
        return float(np.mean(jobs["jct_seconds"].to_numpy()))


def _settings(
    machines: Sequence[tuple[int, int]], splits: Sequence[tuple[int, int, int]], loads: Sequence[float]
) -> tuple[Setting, ...]:
    """Every machine, of cores and GB, with every split and load, jobs of one GPU or gangs at half the load."""
    return tuple(
        Setting(cpus, memory, split, load * (0.5 if gangs else 1.0), gangs)
        for (cpus, memory), split, load, gangs in product(machines, splits, loads, (False, True))
    )


SETTINGS = _settings(
    ((12, 500), (36, 200), (24, 300), (48, 400)), ((50, 0, 50), (40, 40, 20)), loads=(1.6, 3.0)
)
FURTHER = _settings(((14, 440), (18, 240), (28, 360)), ((70, 0, 30), (30, 40, 30)), loads=(1.2, 2.4))
"""Settings on which nothing of joint was chosen."""


TUNING = _settings(
    ((10, 480), (13, 480), (20, 220), (28, 360)), ((50, 0, 50), (40, 40, 20)), loads=(1.6, 3.0)
)
"""Settings, those with gangs, on which was decided what a job counts under an order that stops none."""
GROUNDS: Mapping[str, tuple[Setting, ...]] = {
    "synergy": SETTINGS,
    "synergy-further": FURTHER,
    "synergy-tuning": TUNING,
}
"""The settings of each ground of Synergy's jobs."""


def cases(order: str, knowledge: str, settings: Sequence[Setting]) -> Iterator[Case]:
    """All settings with the specialists of an order."""
    for setting in settings:
        figure = partial(_figure, setting, knowledge)
        yield Case(
            str(setting), f"{order}+{JOINT}", [f"{order}+{name}" for name in RIVALS], figure, FIRST_SEED
        )


def _figure(setting: Setting, knowledge: str, scheduler: str, seed: int, make: Make) -> float:
    return setting.mean_jct(scheduler, seed, make, knowledge)


def lines(orders: Sequence[str], seeds: int, only: str, settings: Sequence[Setting]) -> Iterator[str]:
    """Mean JCT of joint over that of the best rival of the same order, by setting, and who that is."""
    for order in orders:
        ratios = []
        for setting in settings:
            if only not in str(setting):
                continue
            means = {name: _over_seeds(setting, f"{order}+{name}", seeds) for name in (*RIVALS, JOINT)}
            best = min(RIVALS, key=lambda name: float(means[name].mean()))
            ratio = float(means[JOINT].mean() / means[best].mean())
            ratios.append(ratio)
            width = estimate((means[JOINT] / means[best]).tolist()).half_width
            shown = f"{ratio:.3f}" + ("" if width is None else f" ± {width:.3f}")
            yield f"{order:10} {setting!s:45} joint / {best:17} {shown}{'' if ratio <= BAR else '  above ' + str(BAR)}"
        met = sum(ratio <= BAR for ratio in ratios)
        mean = geometric_mean(ratios)
        yield f"{order:10} {met} of {len(ratios)} settings at most {BAR}; geometric mean {mean:.3f}"


def _over_seeds(setting: Setting, scheduler: str, seeds: int) -> np.ndarray:
    return np.array([setting.mean_jct(scheduler, FIRST_SEED + at) for at in range(seeds)])
