"""Synergy's workloads: models in turn within classes of a fixed split, two laws of durations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from muster.problems import InputError, Problem
from muster.workload.generators.draws import (
    LogRange,
    check_settings,
    check_span,
    drawn,
    poisson_arrivals,
    streams,
    two_range_durations,
)
from muster.workload.models import synergy_models
from muster.workload.trace import Trace, trace_of

CLASSES: tuple[tuple[str, ...], ...] = (
    ("alexnet", "resnet18", "resnet50", "mobilenetv2", "shufflenetv2"),
    ("gnmt", "transformer-xl", "lstm"),
    ("m5", "deepspeech"),
)
"""Image, language, speech; within a class the models follow each other in this order."""

DEFAULT_LOAD = 9.0
"""Arrivals per hour."""
PHILLY_SIZES = {1: 96_662, 2: 2_522, 4: 5_487, 8: 5_716, 16: 852}
"""Jobs by GPUs in Microsoft's Philly trace (data CC-BY-4.0), the sizes that Synergy takes from it."""


class Durations(NamedTuple):
    """Minutes as powers of ten: the range of four jobs in five, and that of the fifth."""

    shorter: LogRange
    longer: LogRange


DYNAMIC = Durations((1.5, 3.0), (3.0, 4.0))
STATIC = Durations((1.5, 2.5), (2.5, 2.7))


def generate(
    jobs: int,
    load_per_hour: float = DEFAULT_LOAD,
    split: Sequence[int] = (20, 70, 10),
    multi_gpu: bool = False,
    static: bool = False,
    seed: int = 0,
) -> Trace:
    """A trace with iterations; `load_per_hour` jobs arrive an hour, or, `static`, all at time 0.

    `split` is the share of image, language and speech models. One GPU a job, or with `multi_gpu` Philly's
    mix of 1, 2, 4, 8 and 16.
    """
    check_settings(seed, {"jobs": jobs}, {"load": load_per_hour})
    if len(split) != len(CLASSES) or min(split) < 0 or sum(split) == 0:
        what = "allowed: three whole numbers from 0 on, not all 0: image, language, speech"
        raise InputError(Problem("--split", what, found=",".join(map(str, split))))
    arrivals, durations, sizes = streams(seed, 3)
    law = STATIC if static else DYNAMIC
    models = list(islice(models_in_turn(split), jobs))
    known = synergy_models()
    seconds_each = np.array([known[name].seconds_per_iteration for name in models])
    seconds = two_range_durations(durations, jobs, *law)
    gpus = (
        drawn(sizes, list(PHILLY_SIZES), list(PHILLY_SIZES.values()), jobs)
        if multi_gpu
        else np.ones(jobs, int)
    )
    submit = np.zeros(jobs) if static else poisson_arrivals(arrivals, jobs, load_per_hour)
    columns = {
        "job_id": np.arange(jobs),
        "submit_seconds": check_span("--load", load_per_hour, submit),
        "gpus": gpus,
        "model": models,
        "iterations": np.maximum(1.0, np.round(seconds / seconds_each)),
    }
    kind = "static" if static else f"load {load_per_hour:g} per hour"
    shares = ",".join(map(str, split))
    sizes_named = "1 to 16 GPUs" if multi_gpu else "1 GPU"
    return trace_of(columns, f"synergy generator: {kind}, split {shares}, {sizes_named}, seed {seed}")


def models_in_turn(split: Sequence[int]) -> Iterator[str]:
    """The next job is of the class furthest below its share, the first of equals; its models take turns.

    Counted in whole numbers: below its share by share x jobs so far - total x jobs of the class.
    """
    total = sum(split)
    counts = [0] * len(split)
    made = 0
    while True:
        # They add up to 0, so that the largest is never negative and a class without a share never chosen.
        behind = [
            share * made - total * count if share else -1 for share, count in zip(split, counts, strict=True)
        ]
        chosen = behind.index(max(behind))
        models = CLASSES[chosen]
        yield models[counts[chosen] % len(models)]
        counts[chosen] += 1
        made += 1
