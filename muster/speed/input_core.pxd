"""The input stage of a step, for compiled code: the layout of `input_pipeline` and its laws."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

cdef enum:
    MOST_CPU_POINTS = 16
    MOST_MEMORY_POINTS = 8
    MOST_GPU_TYPES = 32
    PARTS_OF_A_DATA_SET = 1000000000  # less than one of so many parts that is not cached is a rounding error

cdef struct ModelSpeed:
    int64_t n_cpus
    int64_t n_memory
    double cpus[MOST_CPU_POINTS]
    double memory[MOST_MEMORY_POINTS]
    double input_seconds[MOST_CPU_POINTS][MOST_MEMORY_POINTS]
    double reference_seconds
    double compute_seconds
    double batch_gb
    double dataset_gb
    double memory_gb_per_s
    double batch
    double fixed_share
    double largest_batch
    int64_t on_type[MOST_GPU_TYPES]


cdef inline double seconds_at_memory_point(ModelSpeed* model, double cpus, int64_t column) noexcept nogil:
    """Seconds at a memory point of the grid: speed linear in CPUs between the CPU points."""
    cdef int64_t low = 0
    cdef double seconds, share, speed
    while low + 1 < model.n_cpus and model.cpus[low + 1] <= cpus:
        low += 1
    seconds = model.input_seconds[low][column]
    if cpus < model.cpus[0]:
        seconds *= model.cpus[0] / cpus
        return seconds
    if low + 1 == model.n_cpus or cpus == model.cpus[low]:
        return seconds
    share = (cpus - model.cpus[low]) / (model.cpus[low + 1] - model.cpus[low])
    speed = (1 - share) / seconds + share / model.input_seconds[low + 1][column]
    return 1 / speed


cdef inline double read_seconds(ModelSpeed* model, double memory_gb, double storage_gb_per_s) noexcept nogil:
    """Seconds to get one batch from cache and storage; 0 where the data set is unknown.

    A data set is cached in full also where the memory of a GPU is less by a rounding error, as one part of that of
    seven: else a job without storage would wait for ever.
    """
    cdef double cached, seconds
    if model.batch_gb == 0:
        return 0.0
    cached = min(1.0, max(0.0, memory_gb) / model.dataset_gb)
    seconds = model.batch_gb * cached / model.memory_gb_per_s
    if (1 - cached) * PARTS_OF_A_DATA_SET >= 1:
        if storage_gb_per_s <= 0:
            return INFINITY
        seconds += model.batch_gb * (1 - cached) / storage_gb_per_s
    return seconds


cdef inline double input_stage_seconds(
    ModelSpeed* model, double cpus, double memory_gb, double storage_gb_per_s
) noexcept nogil:
    """Seconds an iteration that the input stage takes, by amounts a GPU; 0 without a profile, infinite without CPUs."""
    cdef int64_t low = 0
    cdef double prepare, share
    if model.n_cpus == 0:
        return 0.0
    if cpus <= 0:
        return INFINITY
    while low + 1 < model.n_memory and model.memory[low + 1] <= memory_gb:
        low += 1
    prepare = seconds_at_memory_point(model, cpus, low)
    # Seconds beyond all numbers, from a breath of a CPU, stay so whatever the memory.
    if low + 1 < model.n_memory and memory_gb > model.memory[low] and prepare < INFINITY:
        share = (memory_gb - model.memory[low]) / (model.memory[low + 1] - model.memory[low])
        prepare += share * (seconds_at_memory_point(model, cpus, low + 1) - prepare)
    return max(prepare, read_seconds(model, memory_gb, storage_gb_per_s))


cdef inline double relative_speed(
    ModelSpeed* model, double cpus, double memory_gb, double storage_gb_per_s
) noexcept nogil:
    """Speed against the reference point (Synergy's W): 1 at the GPU-proportional share."""
    cdef double seconds = input_stage_seconds(model, cpus, memory_gb, storage_gb_per_s)
    return model.reference_seconds / max(seconds, model.compute_seconds)


cdef inline double speed_without_waiting(ModelSpeed* model) noexcept nogil:
    """Speed against the reference point with an input stage that never waits."""
    return model.reference_seconds / model.compute_seconds


cdef inline double storage_needed_gb_per_s(ModelSpeed* model, double cpus, double memory_gb) noexcept nogil:
    """Storage bandwidth per GPU above which more makes no difference (Synergy, optimistic profiling).

    (1 - p) D / (epoch - p D / memory bandwidth), here an iteration's share of it; 0 where the data set is
    unknown or all of it is cached, infinite where memory alone is too slow.
    """
    cdef double cached, unread, left
    if model.batch_gb == 0 or memory_gb >= model.dataset_gb:
        return 0.0
    cached = max(0.0, memory_gb) / model.dataset_gb
    unread = input_stage_seconds(model, cpus, memory_gb, INFINITY)
    left = max(unread, model.compute_seconds) - model.batch_gb * cached / model.memory_gb_per_s
    if left <= 0:
        return INFINITY
    return model.batch_gb * (1 - cached) / left
