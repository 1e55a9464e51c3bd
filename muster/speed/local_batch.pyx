"""The part of a gang's total batch that each GPU takes, and the input stage of many jobs at once, for Python."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from muster.cluster.arrays cimport Floats, Ints, floats, ints, records
from muster.speed.input_core cimport ModelSpeed, input_stage_seconds
from muster.speed.local_batch_core cimport LocalBatch, local_batch

import numpy as np


def local_batches(models, numbers, asked_per_held):
    """Samples of each GPU an iteration, passes over them and compute of a pass; by record of `models` and job.

    Samples are counted in batches of the model, and the compute of a pass in that of one over such a batch.
    """
    cdef ModelSpeed* all_models = <ModelSpeed*> records(models, sizeof(ModelSpeed))
    cdef Ints number = ints(numbers)
    cdef double* ratio = floats(asked_per_held).at
    cdef LocalBatch local
    cdef Floats columns
    cdef int64_t at
    result = np.empty((3, number.size))
    columns = floats(result)
    for at in range(number.size):
        local = local_batch(&all_models[number.at[at]], ratio[at])
        columns.at[at] = local.samples
        columns.at[number.size + at] = local.passes
        columns.at[2 * number.size + at] = local.last_pass
    return result


def input_seconds(models, numbers, samples, cpus, memory_gb, storage_gb_per_s):
    """Seconds an iteration that the input stage of each job takes, by amounts a GPU; all arrays of one length."""
    cdef ModelSpeed* all_models = <ModelSpeed*> records(models, sizeof(ModelSpeed))
    cdef Ints number = ints(numbers)
    cdef double* of_samples = floats(samples).at
    cdef double* cores = floats(cpus).at
    cdef double* memory = floats(memory_gb).at
    cdef double* storage = floats(storage_gb_per_s).at
    cdef Floats seconds
    cdef int64_t at
    result = np.empty(number.size)
    seconds = floats(result)
    for at in range(number.size):
        seconds.at[at] = of_samples[at] * input_stage_seconds(
            &all_models[number.at[at]], cores[at], memory[at], storage[at]
        )
    return result


cdef double _cpus_for(ModelSpeed* model, int64_t column, double seconds) noexcept nogil:
    """The least CPUs with which a batch takes so long at a memory point; infinite where none do."""
    cdef int64_t low = 0
    cdef double before, after
    while low < model.n_cpus and model.input_seconds[low][column] > seconds:
        low += 1
    if low == model.n_cpus:
        return INFINITY
    after = model.input_seconds[low][column]
    if low == 0:
        return model.cpus[0] * after / seconds
    before = model.input_seconds[low - 1][column]
    return model.cpus[low - 1] + (model.cpus[low] - model.cpus[low - 1]) * (
        (1 / seconds - 1 / before) / (1 / after - 1 / before)
    )


def input_needs(models, numbers, samples, seconds):
    """The least CPUs a GPU with which the input stage takes at most these seconds, by job and memory point.

    With storage that is fast enough; infinite where no CPUs suffice, 0 where the input of a model is not known. The
    second array has the memory points, GB a GPU; a model that has fewer of them repeats its last.
    """
    cdef ModelSpeed* all_models = <ModelSpeed*> records(models, sizeof(ModelSpeed))
    cdef ModelSpeed* model
    cdef Ints number = ints(numbers)
    cdef double* of_samples = floats(samples).at
    cdef double* wanted = floats(seconds).at
    cdef Floats cpus, memory
    cdef int64_t at, column, points, width = 1
    for at in range(number.size):
        width = max(width, all_models[number.at[at]].n_memory)
    needed, amounts = np.zeros((number.size, width)), np.zeros((number.size, width))
    cpus, memory = floats(needed), floats(amounts)
    for at in range(number.size):
        model = &all_models[number.at[at]]
        points = model.n_memory
        for column in range(width if points else 0):
            memory.at[at * width + column] = model.memory[min(column, points - 1)]
            cpus.at[at * width + column] = (
                _cpus_for(model, min(column, points - 1), wanted[at] / of_samples[at])
                if wanted[at] > 0
                else INFINITY
            )
    return needed, amounts
