"""How much of the all-reduce hides behind the backward pass (Dally "Network model", data-parallel overlap).

Gradients appear from the last layer to the first. Each waits for its turn in a queue a dimension, and
training goes on when the last one has been reduced everywhere and applied.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from muster.compiling import njit

MOST_DIMENSIONS = 4
"""GPUs of an island, islands of a machine, machines of a rack, racks."""


@njit(cache=True)
def exposed_seconds(
    compute_seconds: float,
    ready_seconds: npt.NDArray[np.float64],
    gradient_gb: npt.NDArray[np.float64],
    update_seconds: npt.NDArray[np.float64],
    latency_seconds: npt.NDArray[np.float64],
    seconds_per_gb: npt.NDArray[np.float64],
) -> float:
    """Seconds an iteration lasts beyond its compute.

    Messages come in the order in which the backward pass makes them; `ready_seconds` counts from the
    iteration's start. The last two arrays have one entry a dimension, innermost first.
    """
    free = np.zeros(MOST_DIMENSIONS)
    end = compute_seconds
    for i in range(ready_seconds.size):
        done = ready_seconds[i]
        for d in range(latency_seconds.size):
            done = max(done, free[d]) + latency_seconds[d] + seconds_per_gb[d] * gradient_gb[i]
            free[d] = done
        end = max(end, done + update_seconds[i])
    return end - compute_seconds
