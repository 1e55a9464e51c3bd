"""The optimistic profile of a job: CPU points with every sample from memory, and the two bandwidths."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from muster.problems import BadInput, Problem
from muster.profiling.cpus import cpu_points
from muster.profiling.job import JobToProfile, RunningJob, Tell, Told, running
from muster.profiling.knee_search import search_knee
from muster.profiling.rates import Precision, Rate

CACHE_GB = 0.25
"""Held while CPU points run: what stands in it is read again and again, as if everything stood in it."""
KNEE_THRESHOLD = 0.1
"""Loss of speed that still counts as saturated (Synergy, optimistic profiling)."""
_STORE_WAITS = 0.95
"""Below this part of the speed without storage, storage is what the job waits for."""


@dataclass(frozen=True)
class Reading:
    """What a job reads, and how fast it can."""

    samples: int
    batches_per_epoch: int
    full_gb: float
    """All samples of an epoch."""
    uncached: Rate
    """With all CPU and nothing cached."""
    storage_gb_per_s: float
    storage_is_limit: bool
    """Whether the job waits for storage when nothing is cached; if not, the bandwidth is a lower bound."""
    memory_gb_per_s: float
    """Of cached samples, with all CPU busy at that."""

    @property
    def batch_gb(self) -> float:
        """Read an iteration."""
        return self.full_gb / self.batches_per_epoch


@dataclass(frozen=True)
class Profile:
    """What was measured."""

    points: tuple[float, ...]
    """The CPU amounts that could have been run, in cores."""
    rates: Mapping[float, Rate]
    """By cores, ascending, with every sample from memory."""
    reading: Reading | None
    """None: the job has no cached data, so memory makes no difference that could be computed."""
    by_quota: bool
    """CPU given as a share of time; else whole CPUs by affinity."""
    seconds: float
    """That the profile took."""


def profile_job(
    job: JobToProfile, *, most_cpus: float | None = None, precision: Precision, tell: Tell
) -> Profile:
    """Runs the job at as few points as tell what it is sensitive to."""
    with running(job, tell) as run:
        points = cpu_points(most_cpus, fractions=run.has_quota)
        begin = time.monotonic()
        run.start(cores=points[-1], cache_gb=CACHE_GB, cached_only=True)
        words: list[Told] = []

        def measure(cores: float) -> Rate:
            rate, told = run.measure(cores, precision)
            words.append(told)
            return rate

        rates = search_knee(points, measure, lambda rate: rate.steps_per_s, KNEE_THRESHOLD)
        reading = None
        if words[-1].cache_full_gb:
            reading = _reading(run, points[-1], rates[points[-1]], words[-1], precision)
        seconds = time.monotonic() - begin
        return Profile(points, dict(sorted(rates.items())), reading, run.has_quota, seconds)


def _reading(run: RunningJob, cores: float, cached: Rate, told: Told, precision: Precision) -> Reading:
    """Storage by the job's own loader, with nothing cached; memory by the CPU seconds its hits took."""
    if not told.cache_hits:
        what = f"not one of its samples fits into the {CACHE_GB:g} GB of cache that a profile gives it"
        raise BadInput(Problem("job", what))
    run.set_cache(0.0)
    uncached, _ = run.measure(cores, precision)
    is_limit = uncached.steps_per_s < _STORE_WAITS * cached.steps_per_s
    # Not waiting for storage, both are the same rate, and the noise between them is no news of storage.
    fastest = uncached.steps_per_s if is_limit else max(uncached.steps_per_s, cached.steps_per_s)
    hit_gb = told.cache_hits * told.cache_full_gb / told.cache_samples
    return Reading(
        samples=told.cache_samples,
        batches_per_epoch=told.batches_per_epoch,
        full_gb=told.cache_full_gb,
        uncached=uncached,
        storage_gb_per_s=fastest * told.cache_full_gb / told.batches_per_epoch,
        storage_is_limit=is_limit,
        memory_gb_per_s=cores * hit_gb / told.cache_hit_cpu_seconds,
    )
