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
from muster.compiling import njit
from muster.problems import InputError, Problem
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
        "on_type",
    ]
]
"""One `MODEL_DTYPE` record a model, then those of models on other types of GPU than their reference; the functions
below take it with the index of a record."""
FloatArray: TypeAlias = npt.NDArray[np.float64]


def model_table(models: Sequence[Model | None], gpu_types: Sequence[str] = ()) -> ModelTable:
    """The models as records, in their order; None (no profile) is insensitive, 1 s an iteration.

    `gpu_types` are those of the cluster, by number; a type that a model does not state is as fast as its reference.
    """
    if len(gpu_types) > MOST_GPU_TYPES:
        what = f"at most {MOST_GPU_TYPES} types of GPU can be distinguished"
        raise InputError(Problem("--cluster", what, found=len(gpu_types)))
    records = [_record(model, None if model is None else model.speed) for model in models]
    for number, model in enumerate(models):
        records[number]["on_type"] = number
        for at, gpu_type in enumerate(gpu_types if model else ()):
            assert model is not None
            speed = model.speed_on(gpu_type)
            if speed is not None and speed != model.speed:
                records[number]["on_type"][at] = len(records)
                records.append(_record(model, speed))
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


def _record(model: Model | None, speed: Sequence[Sequence[float]] | None) -> ModelTable:
    entry: ModelTable = zero_records((), MODEL_DTYPE)
    entry["reference_seconds"] = 1.0
    entry["compute_seconds"] = 1.0
    if model is None:
        return entry
    n_cpus, n_memory = len(model.cpus_per_gpu), len(model.memory_gb_per_gpu)
    seconds = model.seconds_per_iteration / np.array(speed)
    entry["n_cpus"], entry["n_memory"] = n_cpus, n_memory
    entry["cpus"][:n_cpus] = model.cpus_per_gpu
    entry["memory"][:n_memory] = model.memory_gb_per_gpu
    entry["reference_seconds"] = model.seconds_per_iteration
    entry["compute_seconds"] = seconds[-1, -1]
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
        read_seconds = _read_seconds(entry, model.memory_gb_per_gpu[column], dataset.storage_gb_per_s)
        waited = read_seconds >= seconds[:, column] * (1 - STORAGE_BOUND_TOLERANCE)
        lowered[:, column] = np.where(waited, lowered[:, column + 1], seconds[:, column])
    return lowered


@njit(cache=True)
def input_stage_seconds(
    table: ModelTable,
    model_index: int,
    cpus_per_gpu: float,
    memory_gb_per_gpu: float,
    storage_gb_per_s_per_gpu: float,
) -> float:
    """Seconds an iteration that the input stage takes; 0 without a profile, infinite without a CPU."""
    entry: ModelTable = table[model_index]
    if entry.n_cpus == 0:
        return 0.0
    if cpus_per_gpu <= 0:
        return np.inf
    low = 0
    while low + 1 < entry.n_memory and entry.memory[low + 1] <= memory_gb_per_gpu:
        low += 1
    prepare: float = _seconds_at_memory_point(entry, cpus_per_gpu, low)
    # Seconds beyond all numbers, from a breath of a CPU, stay so whatever the memory.
    if low + 1 < entry.n_memory and memory_gb_per_gpu > entry.memory[low] and prepare < np.inf:
        share = (memory_gb_per_gpu - entry.memory[low]) / (entry.memory[low + 1] - entry.memory[low])
        prepare += share * (_seconds_at_memory_point(entry, cpus_per_gpu, low + 1) - prepare)
    return max(prepare, _read_seconds(entry, memory_gb_per_gpu, storage_gb_per_s_per_gpu))


@njit(cache=True)
def relative_speed(
    table: ModelTable,
    model_index: int,
    cpus_per_gpu: float,
    memory_gb_per_gpu: float,
    storage_gb_per_s_per_gpu: float,
) -> float:
    """Speed against the reference point (Synergy's W): 1 at the GPU-proportional share."""
    entry: ModelTable = table[model_index]
    seconds = input_stage_seconds(
        table, model_index, cpus_per_gpu, memory_gb_per_gpu, storage_gb_per_s_per_gpu
    )
    speed: float = entry.reference_seconds / max(seconds, entry.compute_seconds)
    return speed


@njit(cache=True)
def storage_needed_gb_per_s(
    table: ModelTable, model_index: int, cpus_per_gpu: float, memory_gb_per_gpu: float
) -> float:
    """Storage bandwidth per GPU above which more makes no difference (Synergy, optimistic profiling).

    (1 - p) D / (epoch - p D / memory bandwidth), here an iteration's share of it; 0 where the data set is
    unknown or all of it is cached, infinite where memory alone is too slow.
    """
    entry: ModelTable = table[model_index]
    if entry.batch_gb == 0 or memory_gb_per_gpu >= entry.dataset_gb:
        return 0.0
    cached = max(0.0, memory_gb_per_gpu) / entry.dataset_gb
    unread = input_stage_seconds(table, model_index, cpus_per_gpu, memory_gb_per_gpu, np.inf)
    from_memory = entry.batch_gb * cached / entry.memory_gb_per_s
    left = max(unread, entry.compute_seconds) - from_memory
    if left <= 0:
        return np.inf
    needed: float = entry.batch_gb * (1 - cached) / left
    return needed


@njit(cache=True)
def _seconds_at_memory_point(entry: ModelTable, cpus_per_gpu: float, column: int) -> float:
    """Seconds at a memory point of the grid: speed linear in CPUs between the CPU points."""
    low = 0
    while low + 1 < entry.n_cpus and entry.cpus[low + 1] <= cpus_per_gpu:
        low += 1
    seconds: float = entry.input_seconds[low, column]
    if cpus_per_gpu < entry.cpus[0]:
        seconds *= entry.cpus[0] / cpus_per_gpu
        return seconds
    if low + 1 == entry.n_cpus or cpus_per_gpu == entry.cpus[low]:
        return seconds
    share = (cpus_per_gpu - entry.cpus[low]) / (entry.cpus[low + 1] - entry.cpus[low])
    speed: float = (1 - share) / seconds + share / entry.input_seconds[low + 1, column]
    return 1 / speed


@njit(cache=True)
def _read_seconds(entry: ModelTable, memory_gb_per_gpu: float, storage_gb_per_s_per_gpu: float) -> float:
    """Seconds to get one batch from cache and storage; 0 where the data set is unknown."""
    if entry.batch_gb == 0:
        return 0.0
    cached = min(1.0, max(0.0, memory_gb_per_gpu) / entry.dataset_gb)
    seconds: float = entry.batch_gb * cached / entry.memory_gb_per_s
    if cached < 1:
        if storage_gb_per_s_per_gpu <= 0:
            return np.inf
        seconds += entry.batch_gb * (1 - cached) / storage_gb_per_s_per_gpu
    return seconds
