"""How much of the all-reduce hides behind the backward pass (Dally "Network model", data-parallel overlap).

Gradients appear from the last layer to the first. Each waits for its turn in a queue a dimension, and
training goes on when the last one has been reduced everywhere and applied.
"""

from muster.cluster.arrays cimport Floats, floats

import numpy as np


cdef Beyond beyond_compute(
    double compute_seconds, Messages messages, double stretched, double slowed, Costs* costs
) noexcept nogil:
    """What an iteration lasts beyond its compute.

    Its compute takes `stretched` times as long as the messages say, and sending over uplinks `slowed` times as long as
    alone.
    """
    cdef Beyond beyond
    cdef double free[MOST_DIMENSIONS]
    cdef double begun, done, last = 0.0, end = compute_seconds * stretched
    cdef int64_t i, d
    beyond.busy = 0.0
    for d in range(costs.dimensions):
        free[d] = 0.0
    for i in range(messages.count):
        done = messages.ready_seconds[i] * stretched
        for d in range(costs.within_machine):
            done = max(done, free[d]) + costs.latency_seconds[d] + costs.seconds_per_gb[d] * messages.gradient_gb[i]
            free[d] = done
        begun = max(done, last)
        for d in range(costs.within_machine, costs.dimensions):
            if d == costs.within_machine:
                begun = max(begun, free[d])
            done = max(done, free[d]) + costs.latency_seconds[d]
            done += costs.seconds_per_gb[d] * slowed * messages.gradient_gb[i]
            free[d] = done
        if costs.within_machine < costs.dimensions:
            beyond.busy += done - begun
            last = done
        end = max(end, done + messages.update_seconds[i])
    beyond.seconds = end - compute_seconds * stretched
    return beyond


def exposed_seconds(
    double compute_seconds, ready_seconds, gradient_gb, update_seconds, latency_seconds, seconds_per_gb
):
    """Seconds an iteration lasts beyond its compute.

    Messages come in the order in which the backward pass makes them; `ready_seconds` counts from the
    iteration's start. The last two arrays have one entry a dimension, innermost first.
    """
    cdef Messages messages
    cdef Costs costs
    cdef Floats latency = floats(latency_seconds), per_gb = floats(seconds_per_gb)
    cdef int64_t d
    columns = np.array([ready_seconds, gradient_gb, update_seconds], np.float64)
    messages.ready_seconds, messages.count = floats(columns).at, columns.shape[1]
    messages.gradient_gb = messages.ready_seconds + messages.count
    messages.update_seconds = messages.gradient_gb + messages.count
    if latency.size > MOST_DIMENSIONS:
        raise ValueError(f"an all-reduce over {latency.size} dimensions; allowed: at most {MOST_DIMENSIONS}")
    costs.dimensions, costs.within_machine = latency.size, 0
    for d in range(latency.size):
        costs.latency_seconds[d], costs.seconds_per_gb[d] = latency.at[d], per_gb.at[d]
    return beyond_compute(compute_seconds, messages, 1.0, 1.0, &costs).seconds
