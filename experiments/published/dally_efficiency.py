"""Efficiencies as the repaired program of Dally's authors has them, to the last bit.

Its jobs are ordered by doubles that differ in their last bits, so the order of the operations matters: times in
nanoseconds, sizes in bytes, each layer time multiplied by the scale, forward times summed from first to last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from muster.speed.network.dimensions import ASTRA, ASTRA_GB_PER_S, CLUSTER, FLAVOURS, astra_links, astra_sizes
from muster.speed.network.models import LayeredModel
from muster.speed.network.placement import Shapes
from muster.speed.network.speed import NetworkSpeed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_GIGA = 1e9
_DIGITS = 6
"""Of a nanosecond or byte: enough to undo the rounding of a file's whole numbers to seconds and GB."""


class PublishedEfficiency:
    """Looks up the efficiency of a model on a shape of placement, and computes each pair once."""

    def __init__(self, speed: NetworkSpeed | None) -> None:
        self._speed = speed
        self._known: dict[tuple[int, bytes], float] = {}
        self._layers: dict[int, Floats] = {}

    def of(self, model: int, shapes: Shapes) -> float:
        """Compute over compute and exposed communication, of one job on one shape.

        A model without layers, or links that are not counted as by the authors' backend, have the efficiency of
        the network model.
        """
        if self._speed is None or shapes[0]["gpus"] < 2 or self._speed.models[model] is None:
            return 1.0
        key = (model, shapes.tobytes())
        if key not in self._known:
            self._known[key] = self._computed(self._speed, model, shapes)
        return self._known[key]

    def _computed(self, speed: NetworkSpeed, model: int, shapes: Shapes) -> float:
        layered = speed.models[model]
        if not isinstance(layered, LayeredModel) or speed.flavour != FLAVOURS[ASTRA]:
            return float(speed.efficiency(np.array([model]), shapes)[0])
        if model not in self._layers:
            self._layers[model] = rows_of_layers(layered)
        sizes, levels = astra_sizes(shapes[0])
        rows, tree = self._layers[model], speed.tree
        hop_ns = np.round(tree.hop_seconds * _GIGA, _DIGITS)
        rates = tree.level_gb_per_s
        return published_efficiency(rows, layered.compute_scale, sizes, levels, rates, hop_ns)


def rows_of_layers(model: LayeredModel) -> Floats:
    """Forward, input gradient and weight gradient ns, gradient bytes and update ns of each layer, as profiled."""
    base = model.profiled or model
    columns = (
        base.forward_seconds,
        base.input_gradient_seconds,
        base.weight_gradient_seconds,
        base.gradient_gb,
        base.update_seconds,
    )
    return np.round(np.stack(columns, axis=1) * _GIGA, _DIGITS)


def published_efficiency(
    layers: Floats, scale: float, sizes: Ints, levels: Ints, level_gb_per_s: Floats, hop_ns: Floats
) -> float:
    """t / max(t, end) of the closed form, in the published order of operations; `layers` as of `rows_of_layers`."""
    steps = []
    for gpus, level in zip(sizes.tolist(), levels.tolist(), strict=True):
        hops = 2.0 if level == CLUSTER else 1.0
        bytes_per_ns = float(level_gb_per_s[level]) * ASTRA_GB_PER_S * astra_links(level, gpus)
        steps.append((2 * (gpus - 1), hops * float(hop_ns[level]), gpus * bytes_per_ns))
    rows = layers.tolist()
    compute = 0.0
    for row in rows:
        compute += row[0] * scale
    free = [0.0] * len(steps)
    end = 0.0
    for layer in range(len(rows) - 1, -1, -1):
        _, input_gradient, weight_gradient, gradient_bytes, update = rows[layer]
        compute += weight_gradient * scale
        ready = compute
        for d, (rounds, latency, rate) in enumerate(steps):
            ready = max(ready, free[d]) + rounds * (latency + gradient_bytes / rate)
            free[d] = ready
        end = max(end, ready + update)
        if layer > 0:
            compute += input_gradient * scale
    return compute / max(compute, end)
