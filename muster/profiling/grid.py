"""Every point really run, for comparison with what the optimistic profile predicts of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.profiling.compute import ComputeProfile
from muster.profiling.job import JobToProfile, ProgressCallback, running
from muster.profiling.optimistic import CACHE_GB
from muster.profiling.rates import Precision, Rate
from muster.speed.input_pipeline import model_table
from muster.speed.input_stage import relative_speed
from muster.speed.local_batch import input_seconds, local_batches
from muster.training.shares import largest_share
from muster.workload.models import Model

SHARES = (8, 6, 4, 3, 2)
"""Workers among whom the batch is shared, the whole of which the other points have."""


@dataclass(frozen=True)
class Grid:
    """Measured rates over CPU and memory."""

    cpus: tuple[float, ...]
    memory_gb: tuple[float, ...]
    rates: tuple[tuple[Rate, ...], ...]
    """A row a CPU point, a column a memory point."""
    samples: tuple[int, ...]
    """Of a worker that shares the batch, ascending; none where the script does not share it."""
    share_rates: tuple[tuple[Rate, ...], ...]
    """With every sample from memory: a row a CPU point, a column a number of samples."""
    seconds: float
    """That it took."""


def measure_grid(
    job: JobToProfile,
    *,
    cpus: Sequence[float],
    memory_gb: Sequence[float],
    compute: ComputeProfile | None,
    precision: Precision,
    on_progress: ProgressCallback,
) -> Grid:
    """Runs the job at every point; fills its cache again for each amount of memory, and starts it for each share."""
    with running(job, on_progress) as run:
        begin = time.monotonic()
        run.start(cores=cpus[-1], cache_gb=0.0, cached_only=False)
        columns = []
        for memory in memory_gb:
            run.give_cpus(cpus[-1])
            run.set_cache(memory)
            columns.append([run.measure(cores, precision)[0] for cores in cpus])
        share_of = {}
        if compute is not None and compute.elastic:
            whole = compute.samples
            share_of = {largest_share(whole, share): share for share in SHARES if share <= whole}
        for share in share_of.values():
            run.start(cores=cpus[-1], cache_gb=CACHE_GB, cached_only=True, share=share)
            columns.append([run.measure(cores, precision)[0] for cores in cpus])
        rows = [tuple(column[row] for column in columns) for row in range(len(cpus))]
        rates = tuple(row[: len(memory_gb)] for row in rows)
        shares = tuple(row[len(memory_gb) :] for row in rows)
        return Grid(tuple(cpus), tuple(memory_gb), rates, tuple(share_of), shares, time.monotonic() - begin)


def predicted_steps_per_s(model: Model, cpus: float, memory_gb: float) -> float:
    """What simulator and scheduler will expect of the model, on the storage it was measured with."""
    table = model_table([model])
    storage = model.dataset.storage_gb_per_s if model.dataset else 0.0
    return float(relative_speed(table, 0, cpus, memory_gb, storage)) / model.seconds_per_iteration


def predicted_of_share(model: Model, cpus: float, share: float) -> float:
    """Steps a second that they will expect of a worker with this part of the batch, all of it from memory."""
    table, number = model_table([model]), np.zeros(1, np.int64)
    samples, passes, last_pass = local_batches(table, number, np.array([share]))
    memory = model.memory_gb_per_gpu[-1]
    waits = input_seconds(table, number, samples, *(np.array([amount]) for amount in (cpus, memory, np.inf)))
    return 1 / max(float(waits[0]), float(table["compute_seconds"][0] * passes[0] * last_pass[0]))
