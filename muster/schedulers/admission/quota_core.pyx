"""The walk of `quota`, compiled: which jobs are within their tenants' limits and guarantees."""

from libc.stdint cimport int64_t

from muster.cluster.arrays cimport Bools, Floats, Ints, bools, floats, ints

import numpy as np


def quota_keys(candidates, tenant, demand, used, per_tenant):
    """For each candidate in order 0 if it is within the guarantee, else 1 + GPUs over weight; and which are over.

    `used` are the GPUs that each tenant holds, to which those of the candidates are added. `per_tenant` are limits,
    guarantees and weights.
    """
    cdef Ints positions = ints(candidates), tenants = ints(tenant)
    cdef Floats gpus = floats(demand), held = floats(used)
    cdef Floats limits = floats(per_tenant[0]), guaranteed = floats(per_tenant[1]), weights = floats(per_tenant[2])
    cdef Floats keys
    cdef Bools over
    cdef int64_t at, number
    cdef double total
    result = np.zeros(positions.size), np.zeros(positions.size, np.bool_)
    keys, over = floats(result[0]), bools(result[1])
    for at in range(positions.size):
        number = tenants.at[positions.at[at]]
        total = held.at[number] + gpus.at[positions.at[at]]
        if total > limits.at[number]:
            over.at[at] = True
            continue
        held.at[number] = total
        if total > guaranteed.at[number]:
            keys.at[at] = 1.0 + total / weights.at[number]
    return result
