"""The fit of the compact form to a layered model: same efficiency on many placements, from few numbers.

Efficiency (compute over compute + exposed communication) is compared on every placement of PLACEMENTS, in
both flavours, with the compute as profiled and ten times longer, over Dally's reference links.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from muster.cluster import Links
from muster.speed.network.collectives import BANDWIDTH_AWARE, BASELINE, RING, stack
from muster.speed.network.dimensions import ASTRA, PHYSICAL, dimensions
from muster.speed.network.models import CompactModel, LayeredModel, Messages
from muster.speed.network.overlap import exposed_seconds
from muster.speed.network.placement import SHAPE_DTYPE
from muster.speed.network.placement_core import EVEN_ISLANDS, EVEN_MACHINES, EVEN_RACKS

PLACEMENTS = (
    (2, 1, 1, 1),
    (4, 1, 1, 1),
    (2, 2, 1, 1),
    (8, 2, 1, 1),
    (2, 2, 2, 1),
    (4, 2, 2, 1),
    (4, 4, 4, 1),
    (8, 2, 2, 1),
    (8, 8, 8, 1),
    (16, 4, 2, 1),
    (16, 16, 16, 1),
    (32, 8, 4, 1),
    (2, 2, 2, 2),
    (4, 2, 2, 2),
    (8, 2, 2, 2),
    (8, 3, 3, 2),
    (16, 5, 3, 2),
    (16, 16, 16, 2),
    (56, 14, 7, 2),
)
"""GPUs, islands, machines, racks."""
COMPUTE_SCALES = (1.0, 10.0)
POWER_LOGARITHMS = (-3.0, 1.6)
"""The powers stay between 1/20 and 5."""
STARTS = tuple((ready, gradient) for ready in (-1.0, 0.0, 0.7, 1.2) for gradient in (-1.5, 0.0, 1.0))
"""Logarithms of the powers from which the search sets out."""


@dataclass(frozen=True)
class CompactFit:
    """A compact model and how far its efficiency is from the layered one's, in points of 1."""

    model: CompactModel
    mean_error: float
    worst_error: float


def fit_compact(layered: LayeredModel) -> CompactFit:
    """Least squares of the efficiency over placements, flavours and compute scales."""
    true = layered.messages()
    costs = _costs()
    targets = _efficiencies([layered.scaled(scale).messages() for scale in COMPUTE_SCALES], costs)
    first_ready_share = float(true.ready_seconds[0]) / true.compute_seconds
    gradient_gb = float(true.gradient_gb.sum())
    last = max(true.ready_seconds.size - 1, 1)
    largest = int(np.argmax(true.gradient_gb))
    updated = int(np.argmax(true.update_seconds))
    has_update = bool(true.update_seconds[updated] > 0.0)

    def candidate(parameters: npt.NDArray[np.float64]) -> CompactModel:
        share, ready, gradient, update = parameters
        return CompactModel(
            layered.name,
            true.compute_seconds,
            true.ready_seconds.size,
            gradient_gb,
            float(1.0 / (1.0 + np.exp(-share))),
            float(np.exp(ready)),
            float(np.exp(gradient)),
            float(true.gradient_gb[largest]) / gradient_gb,
            largest / last,
            float(np.exp(update)) if has_update else 0.0,
            updated / last if has_update else 0.0,
        )

    def errors(parameters: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        model = candidate(parameters)
        return _efficiencies([model.scaled(s).messages() for s in COMPUTE_SCALES], costs) - targets

    share = np.log(first_ready_share / (1.0 - first_ready_share))
    update = np.log(max(float(true.update_seconds[updated]), 1e-9))
    lowest, highest = POWER_LOGARITHMS
    bounds = ([-np.inf, lowest, lowest, -np.inf], [np.inf, highest, highest, np.inf])
    fits = [
        least_squares(errors, [share, *powers, update], bounds=bounds, diff_step=[1e-4] * 4)
        for powers in STARTS
    ]
    best = min(fits, key=lambda fit: float(fit.cost))
    off = np.abs(best.fun)
    return CompactFit(candidate(best.x), float(off.mean()), float(off.max()))


def _costs() -> list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Latency seconds and seconds per GB by dimension, of every placement in both flavours."""
    links = Links()
    levels = (links.island, links.node, links.rack, links.cluster)
    gb_per_s = np.array([level.gb_per_s for level in levels])
    hop_seconds = np.array([level.latency_seconds for level in levels])
    costs = []
    for gpus, islands, machines, racks in PLACEMENTS:
        even = EVEN_ISLANDS * (gpus % islands == 0) + EVEN_MACHINES * (gpus % machines == 0)
        even += EVEN_RACKS * (gpus % racks == 0 and machines % racks == 0)
        machine_uplink = links.rack.gb_per_s
        shape = np.array(
            [(gpus, islands, machines, racks, even, machine_uplink, 8 * machine_uplink)], dtype=SHAPE_DTYPE
        )[0]
        for flavour, hierarchy in ((ASTRA, BASELINE), (PHYSICAL, BANDWIDTH_AWARE)):
            costs.append(stack(RING, hierarchy, *dimensions(flavour, shape, gb_per_s, hop_seconds)))
    return costs


def _efficiencies(
    scaled: list[Messages], costs: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]
) -> npt.NDArray[np.float64]:
    return np.array(
        [
            m.compute_seconds
            / (
                m.compute_seconds
                + exposed_seconds(
                    m.compute_seconds, m.ready_seconds, m.gradient_gb, m.update_seconds, latency, per_gb
                )
            )
            for m in scaled
            for latency, per_gb in costs
        ]
    )
