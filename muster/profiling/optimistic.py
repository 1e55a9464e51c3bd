"""The optimistic profile of a job: CPU points with every sample from memory, and the two bandwidths."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.problems import InputError, Problem
from muster.profiling.compute import COMPARED, FITTED, ComputeProfile, measure_compute
from muster.profiling.cpus import cpu_points
from muster.profiling.job import JobToProfile, ProgressCallback, ProgressReport, RunningJob, running
from muster.profiling.knee_search import search_knee
from muster.profiling.miss_cost import rate_beside
from muster.profiling.rates import Precision, Rate
from muster.profiling.visits import Visits
from muster.profiling.workers import WorkersProfile, measure_workers, worker_counts

CACHE_GB = 0.25
"""Held while CPU points run: what stands in it is read again and again, as if everything stood in it."""
KNEE_THRESHOLD = 0.1
"""Loss of speed that still counts as saturated (Synergy, optimistic profiling)."""
_STORE_WAITS = 0.95
"""Below this part of the speed without storage, storage is what the job waits for."""


@dataclass(frozen=True)
class InputProfile:
    """What a job reads, and how fast it can."""

    samples: int
    batches_per_epoch: int
    full_gb: float
    """Cache in which all samples stand, those too of data sets that the steps do not walk: a grant is shared."""
    batch_gb: float
    """Read an iteration."""
    uncached: Rate
    """With all CPU and nothing cached."""
    storage_gb_per_s: float
    storage_is_limit: bool
    """Whether the job waits for storage when nothing is cached; if not, the bandwidth is a lower bound."""
    memory_gb_per_s: float
    """Of cached samples, with all CPU busy at that."""
    miss_cpu_seconds: float
    """A batch, if none of it is cached: what reading it takes beyond taking it from memory."""


@dataclass(frozen=True)
class Profile:
    """What was measured."""

    points: tuple[float, ...]
    """The CPU amounts that could have been run, in cores."""
    rates: Mapping[float, Rate]
    """By cores, ascending, with every sample from memory."""
    reading: InputProfile | None
    """None: the job has no cached data, so memory makes no difference that could be computed."""
    by_quota: bool
    """CPU given as a share of time; else whole CPUs by affinity."""
    seconds: float
    """That the profile took."""
    drift: float
    """Of the largest point, from its first visit to its last, relative."""
    steady: bool
    """Whether the intervals of those two meet."""
    compute: ComputeProfile | None = None
    """None: not measured; a job that does not report by muster.training cannot repeat a batch."""
    workers: WorkersProfile | None = None
    """None: of one worker only."""


def profile_job(
    job: JobToProfile,
    *,
    most_cpus: float | None = None,
    most_workers: int | None = None,
    shares: Sequence[int] = (*FITTED, COMPARED),
    precision: Precision,
    on_progress: ProgressCallback,
) -> Profile:
    """Runs the job at the fewest points that show what it is sensitive to.

    `most_workers` None: as many as there are GPUs, if the script can share its batch. Compute is measured with the
    batch shared among each of the numbers in `shares`; without one, neither it nor several workers are.
    """
    with running(job, on_progress) as run:
        points = cpu_points(most_cpus, fractions=run.has_quota)
        counts = worker_counts(most_workers, job.gpu_names, points[-1])
        begin = time.monotonic()
        report = run.start(cores=points[-1], cache_gb=CACHE_GB, cached_only=True)
        if not report.elastic:
            counts = _only_one(counts, most_workers)
        measured = Visits(run.measure, precision)
        first, last = visit_knee(measured, points)
        reading = None
        if measured.last_report.cache_full_gb:
            reading = _reading(run, points[-1], measured.rates, measured.last_report, precision)
        compute, workers = (None, None)
        if shares and job.unchanged is None:
            compute, workers = _without_input(run, counts, shares, points[-1], precision)
        return Profile(
            points=points,
            rates=dict(sorted(measured.rates.items())),
            reading=reading,
            by_quota=run.has_quota,
            seconds=time.monotonic() - begin,
            drift=last.steps_per_s / first.steps_per_s - 1,
            steady=first.agrees_with(last),
            compute=compute,
            workers=workers,
        )


def _without_input(
    run: RunningJob, counts: Sequence[int], shares: Sequence[int], cores: float, precision: Precision
) -> tuple[ComputeProfile | None, WorkersProfile | None]:
    """What one worker computes, and what several do; each has its part of the cores."""
    of_a_worker = cores / counts[-1]
    compute = measure_compute(run, of_a_worker, precision, shares)
    if compute is None or counts[-1] == 1:
        return compute, None
    return compute, measure_workers(run, counts[1:], of_a_worker, compute.samples, precision)


def _only_one(counts: tuple[int, ...], most_workers: int | None) -> tuple[int, ...]:
    """Of a script that does not share its batch; refuses more workers that were asked for."""
    if most_workers is not None and counts[-1] > 1:
        what = (
            "allowed: 1 for a script that does not share its batch among workers. "
            "Hint: run.steps(..., elastic=True), docs/how-to/elastic.md"
        )
        raise InputError(Problem("--workers", what, found=most_workers))
    return (1,)


def visit_knee(visits: Visits, points: Sequence[float]) -> tuple[Rate, Rate]:
    """Visits the CPU points that the search for the knee needs; returns the two visits of the largest."""
    search_knee(points, visits.at, _speed, KNEE_THRESHOLD)
    largest = visits.visit_again()
    # What is known better now may have moved the knee; most often nothing is left to run.
    search_knee(points, visits.at, _speed, KNEE_THRESHOLD)
    return largest


def _speed(rate: Rate) -> float:
    return rate.steps_per_s


def _reading(
    run: RunningJob, cores: float, rates: Mapping[float, Rate], report: ProgressReport, precision: Precision
) -> InputProfile:
    """Storage by the job's own loader, with nothing cached; memory by the CPU seconds its hits took."""
    if not report.cache_hits:
        what = f"not one of its samples fits into the {CACHE_GB:g} GB of cache that a profile gives it"
        raise InputError(Problem("job", what))
    run.set_cache(0.0)
    uncached, after = run.measure(cores, precision)
    hit_seconds = report.cache_hit_cpu_seconds / report.cache_hits
    miss_seconds = after.cache_miss_cpu_seconds / after.cache_misses if after.cache_misses else hit_seconds
    batch_samples, batch_gb = (
        whole / report.batches_per_epoch for whole in (report.cache_samples, report.cache_full_gb)
    )
    miss_cpu_seconds = batch_samples * max(0.0, miss_seconds - hit_seconds)
    by_cpu = rate_beside(rates, cores, miss_cpu_seconds)
    is_limit = uncached.steps_per_s < _STORE_WAITS * by_cpu
    # Not waiting for storage, both are the same rate, and the noise between them is no news of storage.
    fastest = uncached.steps_per_s if is_limit else max(uncached.steps_per_s, by_cpu)
    hit_gb = report.cache_hits * report.cache_full_gb / report.cache_samples
    return InputProfile(
        samples=report.cache_samples,
        batches_per_epoch=report.batches_per_epoch,
        full_gb=report.cache_all_gb,
        batch_gb=batch_gb,
        uncached=uncached,
        storage_gb_per_s=fastest * batch_gb,
        storage_is_limit=is_limit,
        memory_gb_per_s=cores * hit_gb / report.cache_hit_cpu_seconds,
        miss_cpu_seconds=miss_cpu_seconds,
    )
