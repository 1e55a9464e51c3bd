"""Every point really run, for comparison with what the optimistic profile predicts of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from muster.profiling.job import JobToProfile, ProgressCallback, running
from muster.profiling.rates import Precision, Rate


@dataclass(frozen=True)
class Grid:
    """Measured rates over CPU and memory."""

    cpus: tuple[float, ...]
    memory_gb: tuple[float, ...]
    rates: tuple[tuple[Rate, ...], ...]
    """A row a CPU point, a column a memory point."""
    seconds: float
    """That it took."""


def measure_grid(
    job: JobToProfile,
    *,
    cpus: Sequence[float],
    memory_gb: Sequence[float],
    precision: Precision,
    on_progress: ProgressCallback,
) -> Grid:
    """Runs the job at every point; fills its cache again for each amount of memory."""
    with running(job, on_progress) as run:
        begin = time.monotonic()
        run.start(cores=cpus[-1], cache_gb=0.0, cached_only=False)
        columns = []
        for memory in memory_gb:
            run.give_cpus(cpus[-1])
            run.set_cache(memory)
            columns.append([run.measure(cores, precision)[0] for cores in cpus])
        rates = tuple(tuple(column[row] for column in columns) for row in range(len(cpus)))
        return Grid(tuple(cpus), tuple(memory_gb), rates, time.monotonic() - begin)
