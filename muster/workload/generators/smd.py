"""Jobs with parameter servers and SMD's utilities (INFOCOM 2021, evaluation).

SMD's: the utility g1 / (1 + exp(g2 (t - g3))) with g1 in [1, 100], g3 in [1, 15] slots, and 10 % insensitive
jobs (g2 = 0), 55 % sensitive (g2 in [0.01, 1]), 35 % critical (g2 in [4, 6]). Ours, since the paper's are not known
to us: a slot of an hour, the models, batches, needs of workers and servers, limits, and the work of a job.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.cluster.portable_math import log10, power
from muster.workload.generators.draws import check_settings, check_span, poisson_arrivals, streams
from muster.workload.trace import Trace, trace_of

SLOT_SECONDS = 3600.0
CLASSES = (0.10, 0.55, 0.35)
"""Insensitive, sensitive, critical."""
URGENCIES = ((0.0, 0.0), (0.01, 1.0), (4.0, 6.0))
"""g2 a slot of each class."""
PRIORITIES = (1.0, 100.0)
TARGET_SLOTS = (1.0, 15.0)

MODELS = ("alexnet", "vgg16", "resnet50", "resnet101", "resnet152", "bert-base")
BATCHES = (128, 256, 512)
NICS_GB_PER_S = (0.125, 0.3125, 0.625)
"""Kept for a server: 1, 2.5, 5 Gbit/s."""
WORKER_GPUS = (1, 2)
CPUS = (1, 10)
MEMORY_GB = (2.0, 32.0)
MOST_PAIRS = (2, 8)
"""The owner's limit is what so many workers with as many servers need."""
REFERENCE_SLOTS = (0.5, 8.0)
"""Seconds of the whole job with half of its limit, in slots, by powers of ten; what an iteration takes is not asked
of the speed model here, but estimated from the batch."""

GFLOPS_A_SAMPLE = {
    "alexnet": 1.4,
    "vgg16": 31.0,
    "resnet50": 8.2,
    "resnet101": 15.7,
    "resnet152": 23.1,
    "bert-base": 22.4,
}
"""Forward, from the published definitions, rounded; used to make long and short jobs only."""


def generate(jobs: int, per_hour: float | None = None, ring: float = 0.0, seed: int = 0) -> Trace:
    """A trace with all jobs at time 0, or `per_hour` of them arriving as a Poisson process.

    A share `ring` of them reduces in a ring of workers and has no servers.
    """
    check_settings(seed, {"jobs": jobs}, {} if per_hour is None else {"per-hour": per_hour})
    arrivals, shapes, utilities, kinds = streams(seed, 4)
    kind = np.searchsorted(np.cumsum(CLASSES), utilities.random(jobs), side="right").clip(max=2)
    low, high = np.array(URGENCIES).T
    urgency = low[kind] + utilities.random(jobs) * (high - low)[kind]
    model = np.array(MODELS)[shapes.integers(len(MODELS), size=jobs)]
    batch = np.array(BATCHES)[shapes.integers(len(BATCHES), size=jobs)]
    pairs = shapes.integers(MOST_PAIRS[0], MOST_PAIRS[1], jobs, endpoint=True)
    each = {
        "worker_gpus": np.array(WORKER_GPUS)[shapes.integers(len(WORKER_GPUS), size=jobs)],
        "worker_cpus": shapes.integers(*CPUS, jobs, endpoint=True),
        "worker_memory_gb": shapes.uniform(*MEMORY_GB, jobs).round(1),
        "server_cpus": shapes.integers(*CPUS, jobs, endpoint=True),
        "server_memory_gb": shapes.uniform(*MEMORY_GB, jobs).round(1),
    }
    shortest, longest = log10(REFERENCE_SLOTS)
    seconds = SLOT_SECONDS * power(10.0, shapes.uniform(shortest, longest, jobs))
    in_ring = kinds.random(jobs) < ring
    submit = np.zeros(jobs) if per_hour is None else poisson_arrivals(arrivals, jobs, per_hour)
    columns = {
        "job_id": np.arange(jobs),
        "submit_seconds": check_span("--per-hour", per_hour or 0.0, submit),
        "gpus": each["worker_gpus"] * pairs,
        "model": model,
        "iterations": np.maximum(1.0, np.round(seconds / _seconds_estimated(model, batch, pairs))),
        "sync": np.where(in_ring, "ring", "ps"),
        "max_workers": 2 * pairs,
        "servers": [None if alone else 2 * int(count) for alone, count in zip(in_ring, pairs, strict=True)],
        **each,
        "cpus": ((each["worker_cpus"] + each["server_cpus"]) * pairs).astype(float),
        "memory_gb": ((each["worker_memory_gb"] + each["server_memory_gb"]) * pairs).round(1),
        "nic_gb_per_s": np.array(NICS_GB_PER_S)[shapes.integers(len(NICS_GB_PER_S), size=jobs)],
        "batch": batch,
        "utility_priority": utilities.uniform(*PRIORITIES, jobs).round(2),
        "utility_urgency_per_hour": urgency.round(4),
        "utility_target_seconds": (SLOT_SECONDS * utilities.uniform(*TARGET_SLOTS, jobs)).round(),
    }
    when = "all at 0" if per_hour is None else f"{per_hour:g} per hour"
    rings = f", {ring:.0%} in rings" if ring else ""
    return trace_of(columns, f"smd generator: {when}{rings}, seed {seed}")


def _seconds_estimated(
    model: NDArray[np.str_], batch: NDArray[np.int64], pairs: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Seconds of an iteration with half of the limit, at 6 x 10^12 operations a second, all hidden behind compute."""
    forward = np.array([GFLOPS_A_SAMPLE[name] for name in model]) / 6000.0
    seconds: NDArray[np.float64] = forward * (batch / np.maximum(pairs / 2, 1) + 64)
    return seconds
