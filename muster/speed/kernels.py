"""Speed by amounts for kernels that Numba compiles; `points_core` has it for the others."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import Books, Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.compiling import njit
from muster.speed.input_pipeline import ModelTable


@njit(cache=True)
def speed_at(models: ModelTable, model: int, amounts: Ints) -> float:
    """Speed with these amounts a GPU, relative to the model's reference (Synergy's W)."""
    speed: float = relative_speed(models, model, amounts[1] / 1e6, amounts[2] / 1e6, amounts[3] / 1e6)
    return speed


@njit(cache=True)
def held_speed(books: Books, row: int, models: ModelTable, model: int) -> float:
    """Speed of a job on what it holds, relative to its model's reference; the slowest machine counts."""
    slowest = np.inf
    per_gpu = np.zeros(RESOURCE_COUNT, np.int64)
    while row >= 0:
        held = books.rows[row]
        if held["amount"][0] > 0:
            for resource in range(1, RESOURCE_COUNT):
                per_gpu[resource] = held["amount"][resource] * 1_000_000 // held["amount"][0]
            here = models[model]["on_type"][books.nodes[held["node"]]["gpu_type"]]
            slowest = min(slowest, speed_at(models, here, per_gpu))
        row = held["next"]
    return slowest if slowest < np.inf else 0.0


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
