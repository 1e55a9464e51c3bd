"""How much of the all-reduce hides behind the backward pass (Dally "Network model", data-parallel overlap).

Gradients appear from the last layer to the first. Each waits for its turn in a queue a dimension, and
training goes on when the last one has been reduced everywhere and applied.
"""

from muster.cluster.arrays cimport Floats, floats

import numpy as np


cdef double seconds_beyond_compute(
    double compute_seconds, Messages messages, double stretched, Costs* costs
) noexcept nogil:
    """Seconds an iteration lasts beyond its compute, which takes `stretched` times as long as the messages say."""
    cdef double free[MOST_DIMENSIONS]
    cdef double done, end = compute_seconds * stretched
    cdef int64_t i, d
    for d in range(costs.dimensions):
        free[d] = 0.0
    for i in range(messages.count):
        done = messages.ready_seconds[i] * stretched
        for d in range(costs.dimensions):
            done = max(done, free[d]) + costs.latency_seconds[d] + costs.seconds_per_gb[d] * messages.gradient_gb[i]
            free[d] = done
        end = max(end, done + messages.update_seconds[i])
    return end - compute_seconds * stretched


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
    costs.dimensions = latency.size
    for d in range(latency.size):
        costs.latency_seconds[d], costs.seconds_per_gb[d] = latency.at[d], per_gb.at[d]
    return seconds_beyond_compute(compute_seconds, messages, 1.0, &costs)
