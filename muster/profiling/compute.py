"""Seconds of a step by the samples that a worker takes: what a job computes, without its input.

A start of its own repeats one batch, so that no input is prepared beside the steps. Of an elastic job it takes as
many samples as the fullest of 1, 2, 4 and 8 workers would; a line is fitted to these, and to one more point it is
compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muster.problems import InputError
from muster.profiling.job import ProgressReport, RunningJob
from muster.profiling.rates import Precision, Rate
from muster.profiling.visits import Visits
from muster.training.shares import largest_share

FITTED, COMPARED = (1, 2, 4, 8), 3
"""Workers among whom a batch is shared where the line is fitted, and where it is compared."""


@dataclass(frozen=True)
class ComputeProfile:
    """What was measured of compute."""

    samples: int
    """Of a whole batch; 0: not known."""
    passes: int
    """In which one worker takes them."""
    elastic: bool
    """Whether the script shares its batch among workers; if not, one point was measured."""
    rates: Mapping[int, Rate]
    """By the samples of a worker, ascending."""
    compared: int | None
    """Samples of the one of these points that is not fitted; None: the batch is too small for it."""
    failed: str
    """Why there are no smaller points; empty if nothing failed."""
    seconds: float
    """That it took."""

    @property
    def whole(self) -> Rate:
        """With all samples of the batch."""
        return self.rates[self.samples]


@dataclass(frozen=True)
class ComputeLine:
    """Seconds of a step: fixed + samples x per_sample."""

    fixed: float
    per_sample: float

    def seconds(self, samples: float) -> float:
        """Of a step with so many samples."""
        return self.fixed + samples * self.per_sample


def fit_compute(samples: Sequence[float], seconds: Sequence[float]) -> ComputeLine:
    """The line with the least sum of squared relative errors, neither of its numbers below 0."""
    batch, took = np.array(samples, dtype=float), np.array(seconds, dtype=float)
    columns = (1 / took, batch / took)
    alone = [float(column.sum() / (column @ column)) for column in columns]
    fixed, per_sample = np.linalg.lstsq(np.column_stack(columns), np.ones(len(took)), rcond=None)[0].tolist()
    if fixed < 0:
        return ComputeLine(0.0, alone[1])
    if per_sample < 0:
        return ComputeLine(alone[0], 0.0)
    return ComputeLine(fixed, per_sample)


@dataclass(frozen=True)
class ComputeFit:
    """The line, and how far it is off."""

    line: ComputeLine
    off: Mapping[int, float]
    """Its seconds over the measured ones, less 1; by samples, those of the compared point too."""


def fit_of(compute: ComputeProfile) -> ComputeFit | None:
    """The line through what is fitted; None where only one number of samples was measured."""
    seconds = {samples: 1 / rate.steps_per_s for samples, rate in compute.rates.items()}
    fitted = [samples for samples in seconds if samples != compute.compared]
    if len(fitted) < 2:
        return None
    line = fit_compute(fitted, [seconds[samples] for samples in fitted])
    return ComputeFit(line, {samples: line.seconds(samples) / took - 1 for samples, took in seconds.items()})


def measure_compute(
    run: RunningJob, cores: float, precision: Precision, workers: Sequence[int]
) -> ComputeProfile | None:
    """Starts the job with one batch again and again; None where the job does not say what it takes of it."""
    begin = time.monotonic()
    first = run.start(cores=cores, cache_gb=0.0, cached_only=False, share=1)
    if not first.share_passes:
        return None
    whole = first.share_samples
    worker_of = _workers_of(whole, workers if first.elastic else (1,))

    def visit(samples: float, of_a_visit: Precision) -> tuple[Rate, ProgressReport]:
        run.set_share(worker_of[round(samples)])
        return run.measure(cores, of_a_visit)

    visits, failed = Visits(visit, precision), ""
    for samples in sorted(worker_of, reverse=True):
        try:
            visits.at(samples)
        except InputError as error:
            if samples == whole:
                raise
            failed = f"with {samples} of {whole} samples the job {error.problems[0].what}"
            run.start(cores=cores, cache_gb=0.0, cached_only=False, share=1)
            break
    visits.visit_again()
    rates = {round(samples): rate for samples, rate in sorted(visits.rates.items())}
    compared = next((samples for samples in rates if worker_of[samples] == COMPARED), None)
    return ComputeProfile(
        whole,
        first.share_passes,
        first.elastic,
        rates,
        compared if len(rates) > 2 else None,
        failed,
        time.monotonic() - begin,
    )


def _workers_of(whole: int, workers: Sequence[int]) -> dict[int, int]:
    """By the samples of the fullest worker, among how many the batch is shared: the fewest with so many samples."""
    return {
        largest_share(whole, count): count
        for count in sorted(workers, reverse=True)
        if count <= max(whole, 1)
    }
