"""How long nodes had how much free: one pass over what was held, in the order of time."""

import numpy as np
from numpy.typing import NDArray

def seconds_free(
    held: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]],
    capacity: NDArray[np.int64],
    start: float,
    end: float,
) -> NDArray[np.float64]: ...
