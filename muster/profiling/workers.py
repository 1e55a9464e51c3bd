"""Steps of several workers on this machine, which share one batch: what their communication adds to compute.

Each number of workers is a start of its own, with the variables of torchrun. As for compute the batch comes again and
again. Each worker also takes smaller shares of it: compute shrinks then and communication does not, so that what hides
behind compute shows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.problems import InputError, Problem
from muster.profiling.job import ProgressReport, RunningJob
from muster.profiling.rates import Precision, Rate
from muster.profiling.visits import Visits
from muster.training.shares import largest_share

MOST_BY_DEFAULT = 4
SHARES, SMALLEST = (1, 2, 4), 8
"""A worker's own share, and parts of it; none is smaller than this part of the batch, but for a whole share."""
COMPARED = 2
"""The part of a share that is not fitted where two others of as many workers are."""


@dataclass(frozen=True)
class WorkersProfile:
    """What was measured of several workers."""

    cores: float
    """Of each worker."""
    rates: Mapping[tuple[int, int], Rate]
    """By workers and the samples of the fullest, ascending."""
    compared: tuple[int, int] | None
    """The one of these points that is not fitted."""
    failed: str
    """Why more workers were not measured; empty if nothing failed."""
    seconds: float
    """That it took."""


def worker_counts(wanted: int | None, gpus: Sequence[str], cores: float) -> tuple[int, ...]:
    """The numbers of workers to measure, 1 among them; refuses more than this machine has GPUs, or else cores, for."""
    most, what = (len(gpus), "free GPUs") if gpus else (int(cores), "cores, without GPUs one for each worker")
    if wanted is None:
        wanted = min(most, MOST_BY_DEFAULT) if gpus else 1
    if not 1 <= wanted <= max(most, 1):
        raise InputError(
            Problem("--workers", f"allowed: 1 to {max(most, 1)}, as many as {what}", found=wanted)
        )
    doubled = [2**power for power in range(wanted.bit_length()) if 2**power < wanted]
    return (*doubled, wanted)


def measure_workers(
    run: RunningJob, counts: Sequence[int], cores: float, batch: int, precision: Precision
) -> WorkersProfile:
    """Starts the job with each of these numbers of workers, of which each has so many cores.

    Ends where the job fails, so that what was measured before is not lost.
    """
    begin = time.monotonic()
    rates: dict[tuple[int, int], Rate] = {}
    compared, failed = None, ""
    for workers in counts:
        shares = {
            largest_share(batch, workers * share): share
            for share in sorted(SHARES, reverse=True)
            if share == 1 or workers * share <= min(SMALLEST, batch)
        }
        try:
            of_these = _rates_of(run, workers, cores, shares, precision)
        except InputError as error:
            failed = error.problems[0].what
            break
        rates |= {(workers, samples): rate for samples, rate in of_these.items()}
        if compared is None and len(shares) > 2:
            compared = next(
                ((workers, samples) for samples, share in shares.items() if share == COMPARED), None
            )
    return WorkersProfile(cores, dict(sorted(rates.items())), compared, failed, time.monotonic() - begin)


def _rates_of(
    run: RunningJob, workers: int, cores: float, shares: Mapping[int, int], precision: Precision
) -> dict[int, Rate]:
    """By the samples of a worker; `shares` are their parts of a worker's own share."""
    run.start(cores=workers * cores, cache_gb=0.0, cached_only=False, share=1, workers=workers)

    def visit(samples: float, of_a_visit: Precision) -> tuple[Rate, ProgressReport]:
        run.set_share(shares[round(samples)])
        return run.measure(workers * cores, of_a_visit)

    visits = Visits(visit, precision)
    for samples in sorted(shares, reverse=True):
        visits.at(samples)
    visits.visit_again()
    return {round(samples): rate for samples, rate in visits.rates.items()}
