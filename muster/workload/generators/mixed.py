"""The mixed kind: 1 to 8 GPUs, Synergy's durations, Poisson arrivals at a load offered to a cluster."""

from __future__ import annotations

import numpy as np

from muster.workload.generators.draws import (
    check_settings,
    check_span,
    drawn,
    mean_of_two_ranges,
    poisson_arrivals,
    streams,
    two_range_durations,
)
from muster.workload.generators.synergy import DYNAMIC
from muster.workload.trace import Trace, trace_of

SIZES = {1: 70, 2: 10, 4: 15, 8: 5}
"""Per cent of jobs by GPUs."""

MEAN_GPUS = sum(gpus * share for gpus, share in SIZES.items()) / 100


def arrivals_per_hour(gpus: int, load: float) -> float:
    """Jobs an hour that ask for `load` of the GPU time of `gpus` GPUs."""
    return load * gpus * 3600.0 / (MEAN_GPUS * mean_of_two_ranges(*DYNAMIC))


def generate(jobs: int, gpus: int, load: float = 0.8, seed: int = 0) -> Trace:
    """A trace with durations whose arrivals offer `load` of the time of `gpus` GPUs."""
    check_settings(seed, {"jobs": jobs, "gpus": gpus}, {"load": load})
    arrivals, durations, sizes = streams(seed, 3)
    submit = poisson_arrivals(arrivals, jobs, arrivals_per_hour(gpus, load))
    columns = {
        "job_id": np.arange(jobs),
        "submit_seconds": check_span("--load", load, submit),
        "gpus": drawn(sizes, list(SIZES), list(SIZES.values()), jobs),
        "duration_seconds": two_range_durations(durations, jobs, *DYNAMIC),
    }
    return trace_of(
        columns, f"mixed generator: load {load:g} of {gpus} GPU{'' if gpus == 1 else 's'}, seed {seed}"
    )
