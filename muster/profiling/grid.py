"""Every point really run, for comparison with what the optimistic profile predicts of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from muster.profiling.job import JobToProfile, ProgressCallback, running
from muster.profiling.rates import Precision, Rate
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import relative_speed
from muster.workload.models import Model


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


def predicted_steps_per_s(model: Model, cpus: float, memory_gb: float) -> float:
    """What simulator and scheduler will expect of the model, on the storage it was measured with."""
    table = model_table([model])
    storage = model.dataset.storage_gb_per_s if model.dataset else 0.0
    return float(relative_speed(table, 0, cpus, memory_gb, storage)) / model.seconds_per_iteration
