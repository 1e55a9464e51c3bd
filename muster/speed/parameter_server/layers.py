"""What a training step is made of, layer by layer (SMD, the layered model)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from muster.problems import InputError, Problem

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Layers:
    """The layers of one model, the first being next to the input."""

    forward_seconds_per_sample: FloatArray
    backward_seconds: FloatArray
    """Of one iteration: as in SMD and Optimus it does not shrink with more workers."""
    gradient_gb: FloatArray

    @classmethod
    def checked(
        cls,
        forward_seconds_per_sample: ArrayLike,
        backward_seconds: ArrayLike,
        gradient_gb: ArrayLike,
        where: str = "layers",
    ) -> Layers:
        """Layers from sequences of equal length; every number from 0 on, at least one layer."""
        columns = {
            "forward_seconds_per_sample": np.asarray(forward_seconds_per_sample, dtype=np.float64),
            "backward_seconds": np.asarray(backward_seconds, dtype=np.float64),
            "gradient_gb": np.asarray(gradient_gb, dtype=np.float64),
        }
        lengths = {name: column.size for name, column in columns.items()}
        if 0 in lengths.values():
            raise InputError(Problem(where, "there is no layer; a model needs at least one"))
        if len(set(lengths.values())) > 1:
            raise InputError(
                Problem(where, "every column needs as many numbers as there are layers", found=lengths)
            )
        problems = [
            Problem(
                where, f"layer {layer}: allowed: a finite number from 0 on", None, name, float(column[layer])
            )
            for name, column in columns.items()
            for layer in np.flatnonzero(~(np.isfinite(column) & (column >= 0)))
        ]
        if problems:
            raise InputError(*problems)
        return cls(*columns.values())

    def __len__(self) -> int:
        """The number of layers."""
        return self.backward_seconds.size
