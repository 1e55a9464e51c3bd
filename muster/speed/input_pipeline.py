"""Input-stage seconds of an iteration from CPU cores, memory and storage per GPU (Synergy §3 and §4).

Between measured points each axis follows what limits it. Samples are prepared at a rate that grows with
the cores, so speed is linear in CPUs; a cache of never-evicted samples saves a fixed time a GB, so seconds
are linear in memory. Both are exact at the points, continuous and monotone, and the surface stays under
the chords between points, so a linear program over the measured points bounds every point between them.
Below the first CPU point speed is proportional to CPUs; elsewhere outside the grid the border holds.

Where the data set is known, storage counts: the part of the matrix that the storage of the measurement
explains is replaced by the time to read a batch at the storage bandwidth that the job really has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from muster.cluster.structured import Structured, zero_records
from muster.problems import InputError, Problem
from muster.speed.input_stage import read_seconds
from muster.workload.model_file import MOST_CPU_POINTS, MOST_MEMORY_POINTS, STORAGE_BOUND_TOLERANCE
from muster.workload.models import Dataset, Model

MOST_GPU_TYPES = 32
MODEL_DTYPE = np.dtype(
    [
        ("n_cpus", np.int64),  # points used of each axis; 0: a model without a profile, insensitive
        ("n_memory", np.int64),
        ("cpus", np.float64, (MOST_CPU_POINTS,)),  # cores per GPU
        ("memory", np.float64, (MOST_MEMORY_POINTS,)),  # GB per GPU
        ("input_seconds", np.float64, (MOST_CPU_POINTS, MOST_MEMORY_POINTS)),  # an iteration
        ("reference_seconds", np.float64),  # an iteration at the reference point
        ("compute_seconds", np.float64),  # an iteration with an input stage that never waits
        ("batch_gb", np.float64),  # read an iteration and GPU; 0: unknown, storage does not count
        ("dataset_gb", np.float64),  # per GPU
        ("memory_gb_per_s", np.float64),  # of cached samples, per GPU
        ("batch", np.float64),  # samples a GPU takes an iteration where the rest was measured; 0: unknown
        ("fixed_share", np.float64),  # of compute_seconds, that a pass takes however few its samples
        ("largest_batch", np.float64),  # samples that one GPU holds at once
        ("on_type", np.int64, (MOST_GPU_TYPES,)),  # the record that holds on each type of GPU of the cluster
    ]
)
ModelTable: TypeAlias = Structured[
    Literal[
        "n_cpus",
        "n_memory",
        "cpus",
        "memory",
        "input_seconds",
        "reference_seconds",
        "compute_seconds",
        "batch_gb",
        "dataset_gb",
        "memory_gb_per_s",
        "batch",
        "fixed_share",
        "largest_batch",
        "on_type",
    ]
]
"""One `MODEL_DTYPE` record a model, then those of models on other types of GPU than their reference; the functions
of `input_stage` take it with the index of a record."""
FloatArray: TypeAlias = npt.NDArray[np.float64]


def model_table(models: Sequence[Model | None], gpu_types: Sequence[str] = ()) -> ModelTable:
    """The models as records, in their order; None (no profile) is insensitive, 1 s an iteration.

    `gpu_types` are those of the cluster, by number; a type that a model does not state is as fast as its reference.
    """
    if len(gpu_types) > MOST_GPU_TYPES:
        what = f"at most {MOST_GPU_TYPES} types of GPU can be distinguished"
        raise InputError(Problem("--cluster", what, found=len(gpu_types)))
    records = [
        _record(None, (), 1.0) if model is None else _record(model, model.speed, model.compute_seconds)
        for model in models
    ]
    for number, model in enumerate(models):
        records[number]["on_type"] = number
        for at, gpu_type in enumerate(gpu_types if model else ()):
            assert model is not None
            speed, seconds = model.speed_on(gpu_type), model.compute_seconds_on(gpu_type)
            if speed is not None and (speed, seconds) != (model.speed, model.compute_seconds):
                records[number]["on_type"][at] = len(records)
                records.append(_record(model, speed, seconds))
    table: ModelTable = zero_records(len(records), MODEL_DTYPE)
    table[:] = records
    return table


def untold_gpu_types(models: Sequence[Model | None], gpu_types: Sequence[str]) -> list[str]:
    """A sentence for models that say nothing of GPUs that the cluster has, where that can make a difference."""
    names: dict[str, list[str]] = {}
    for model in filter(None, models):
        untold = [gpu_type for gpu_type in gpu_types if model.speed_on(gpu_type) is None]
        if untold and (len(gpu_types) > 1 or model.gpu_type or model.on_gpu_type):
            names.setdefault(", ".join(untold), []).append(model.name)
    return [
        f"nothing is known of {', '.join(of_models)} on GPUs of type {untold}: taken to be as their reference"
        for untold, of_models in names.items()
    ]


def _record(model: Model | None, speed: Sequence[Sequence[float]], compute_seconds: float) -> ModelTable:
    entry: ModelTable = zero_records((), MODEL_DTYPE)
    entry["reference_seconds"] = 1.0
    entry["compute_seconds"] = compute_seconds
    if model is None:
        return entry
    entry["batch"] = entry["largest_batch"] = model.batch
    if model.compute is not None:
        entry["fixed_share"] = model.compute.fixed_samples / (model.compute.fixed_samples + model.batch)
        entry["largest_batch"] = model.compute.largest_batch or model.batch
    if not model.input_known:
        entry["reference_seconds"] = compute_seconds
        return entry
    n_cpus, n_memory = len(model.cpus_per_gpu), len(model.memory_gb_per_gpu)
    seconds = model.seconds_per_iteration / np.array(speed)
    entry["n_cpus"], entry["n_memory"] = n_cpus, n_memory
    entry["cpus"][:n_cpus] = model.cpus_per_gpu
    entry["memory"][:n_memory] = model.memory_gb_per_gpu
    entry["reference_seconds"] = model.seconds_per_iteration
    if model.dataset is not None:
        entry["batch_gb"] = model.batch * model.dataset.sample_gb
        entry["dataset_gb"] = model.dataset.size_gb
        entry["memory_gb_per_s"] = model.dataset.memory_gb_per_s
        seconds = _without_storage(seconds, entry, model, model.dataset)
    entry["input_seconds"][:n_cpus, :n_memory] = seconds
    return entry


def _without_storage(seconds: FloatArray, entry: ModelTable, model: Model, dataset: Dataset) -> FloatArray:
    """Measured seconds with the points that waited for storage lowered to the next larger memory's.

    What is lowered comes back as the read time of a batch: at the storage of the measurement the slower of
    the two is the measured one. Nothing is known beyond the largest memory: its points stay.
    """
    lowered = seconds.copy()
    for column in range(len(model.memory_gb_per_gpu) - 2, -1, -1):
        reading = read_seconds(entry, model.memory_gb_per_gpu[column], dataset.storage_gb_per_s)
        waited = reading >= seconds[:, column] * (1 - STORAGE_BOUND_TOLERANCE)
        lowered[:, column] = np.where(waited, lowered[:, column + 1], seconds[:, column])
    return lowered
