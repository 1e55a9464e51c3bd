"""A point of little CPU, measured while batches wait that were prepared with much of it."""

from __future__ import annotations

import sys

import pytest

from muster.cgroups import find_cgroups
from muster.profiling.job import JobToProfile, running
from muster.profiling.rates import Precision

pytestmark = pytest.mark.needs_torch
pytest.importorskip("torch")


def test_batches_prepared_with_more_cpu_do_not_count() -> None:
    cgroups, how = find_cgroups()
    if cgroups is None:
        pytest.skip(f"no CPU quota on this machine: {how}")
    from . import loader_job

    two_windows = Precision(error=0.01, least_windows=2, most_windows=2)
    with running(JobToProfile([sys.executable, loader_job.__file__]), lambda _: None) as run:
        run.start(cores=2.0, cache_gb=0.0, cached_only=False)
        run.measure(2.0, two_windows)
        rate, _ = run.measure(0.5, two_windows)
    most = 0.5 / loader_job.PREPARE_CPU_SECONDS
    assert rate.steps_per_s < 1.1 * most  # with the 32 batches that waited it is 1.9 times that
