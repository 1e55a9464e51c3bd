"""How much an iteration advances a job by its total batch: Pollux's statistical efficiency (OSDI 2021, §3.1).

Progress counts in iterations of the initial batch M0. With the gradient noise scale phi, in samples, an iteration with
a batch of M samples makes

    gain(M) = M / M0 x efficiency(M),   efficiency(M) = (phi + M0) / (phi + M)

of them: nearly M / M0 while noise hides the gradient, and no more than (phi + M0) / M0 however large M is.
"""

from __future__ import annotations

from typing import overload

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@overload
def gain(scale: float, norm: float, variance: float) -> float: ...
@overload
def gain(scale: Floats, norm: float | Floats, variance: float | Floats) -> Floats: ...
@overload
def gain(scale: float, norm: float, variance: Floats) -> Floats: ...
def gain(scale: float | Floats, norm: float | Floats, variance: float | Floats) -> float | Floats:
    """Progress of one iteration with `scale` times the initial batch.

    `norm` is the squared norm of the gradient and `variance` its variance with the initial batch; only their ratio
    counts, which is phi / M0.
    """
    return (variance + norm) / (variance / scale + norm)
