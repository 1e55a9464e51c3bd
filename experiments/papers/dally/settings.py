"""The settings of the paper's question: drawn traces, two networks, two kinds of models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from experiments.papers.experiment import Effort
from muster.cluster.portable_math import exp
from muster.simulation import Options
from muster.workload.generators.draws import drawn, poisson_arrivals, streams
from muster.workload.trace import Trace, trace_of

CLUSTER = "dally-2x8x8"
RESTART_SECONDS = 30.0
A_DAY = 100.0
"""Poisson arrivals, as in the authors' inputs."""
GPUS = {1: 54, 2: 3, 4: 10, 8: 22, 16: 8, 32: 2, 48: 1}
"""Per cent of jobs by gang size, about as in the authors' batch."""
MEDIAN_SECONDS, SPREAD = 50_000.0, 1.3
LEAST_SECONDS, MOST_SECONDS = 7200.0, 1.2e6
"""Single-GPU seconds of a job: log-normal, drawn again outside these."""
MODELS: Mapping[str, Mapping[str, int]] = {
    "authors' scales": {
        "mobilenetv3-small": 25,
        "bert-large": 25,
        "resnet50": 25,
        "alexnet": 11,
        "resnet18": 7,
        "vgg11": 7,
    },
    "measured fits": {
        "pollux-ncf": 25,
        "pollux-bert": 25,
        "pollux-yolov3": 25,
        "pollux-deepspeech2": 11,
        "pollux-cifar10": 7,
        "pollux-imagenet": 7,
    },
}
"""Per cent of jobs by model; the most and the least sensitive have the same shares in both."""


@dataclass(frozen=True)
class Setting:
    """One combination of arrivals, network and models."""

    arrivals: str
    """`batch` or `Poisson`."""
    congested: bool
    models: str

    def __str__(self) -> str:
        """As a title."""
        return f"{self.arrivals}, {'congested' if self.congested else 'uncongested'}, {self.models}"


def settings() -> list[Setting]:
    """All of them."""
    return [
        Setting(arrivals, congested, models)
        for models, arrivals, congested in product(MODELS, ("batch", "Poisson"), (False, True))
    ]


def jobs_of(effort: Effort) -> int:
    """How many jobs a trace has."""
    return 120 if effort.quick else 500


def seeds(effort: Effort) -> range:
    """Of the traces."""
    return range(1, 3) if effort.quick else range(1, 6)


def trace(setting: Setting, jobs: int, seed: int, a_day: float = A_DAY) -> Trace:
    """Jobs of the authors' kind; the same jobs in every setting of a seed."""
    arrivals, sizes, work, models = streams(seed, 4)
    mix = MODELS[setting.models]
    names = list(mix)
    columns = {
        "job_id": np.arange(jobs),
        "submit_seconds": np.zeros(jobs)
        if setting.arrivals == "batch"
        else poisson_arrivals(arrivals, jobs, a_day / 24),
        "gpus": drawn(sizes, list(GPUS), list(GPUS.values()), jobs),
        "gpu_work_seconds": work_seconds(work, jobs),
        "model": [names[at] for at in drawn(models, range(len(names)), list(mix.values()), jobs)],
    }
    return trace_of(columns, f"jobs like Dally's: {setting}, seed {seed}")


def work_seconds(
    generator: np.random.Generator,
    jobs: int,
    median: float = MEDIAN_SECONDS,
    least: float = LEAST_SECONDS,
    most: float = MOST_SECONDS,
) -> Sequence[float]:
    """Single-GPU seconds of so many jobs, log-normal within these limits."""
    seconds = np.zeros(jobs)
    while (outside := (seconds < least) | (seconds > most)).any():
        again = generator.normal(math.log(median), SPREAD, int(outside.sum()))
        seconds[outside] = exp(again)
    rounded: Sequence[float] = seconds.round(3).tolist()
    return rounded


@dataclass(frozen=True)
class Run:
    """One policy in one setting with one seed."""

    scheduler: str
    needs_durations: bool
    setting: Setting
    jobs: int
    seed: int

    def inputs(self) -> Mapping[str, Any]:
        """All that the result depends on."""
        from muster.schedulers.registry import build

        return {**asdict(self), "parts": build(self.scheduler).describe(), "restart": RESTART_SECONDS}

    def run(self) -> Mapping[str, Any]:
        """Makespan, completion times, waits and communication, in seconds."""
        from muster.cluster.shipped import parse_cluster
        from muster.report import summarise
        from muster.schedulers.registry import build
        from muster.simulation import simulate

        options = Options(
            restart_cost_seconds=RESTART_SECONDS,
            congestion=0.5 if self.setting.congested else 0.0,
            contention=self.setting.congested,
            knowledge="oracle" if self.needs_durations else "none",
            seed=self.seed,
        )
        made = trace(self.setting, self.jobs, self.seed)
        result = simulate(made, parse_cluster(CLUSTER), build(self.scheduler), options)
        summary = summarise(result.record)
        return {
            "makespan": summary["makespan_seconds"],
            "jct": summary["jct_seconds"]["mean"],
            "p95": summary["jct_seconds"]["p95"],
            "p99": summary["jct_seconds"]["p99"],
            "wait": summary["wait_seconds"]["mean"],
            "communication": summary["stage_seconds"]["communication"] / self.jobs,
            "unfinished": summary["unfinished"],
        }
