"""The network of one machine, from the steps of several workers: `[network.measured]` as far as one machine shows it.

Compute is known from one worker. So the two or three numbers of communication are those, of a fine grid, with the
least sum of squared relative errors. How fast several machines are it cannot say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from muster.formatting import counted, percent
from muster.profiling.compute import ComputeLine, fit_of
from muster.profiling.optimistic import Profile
from muster.profiling.workers import WorkersProfile
from muster.speed.scaling import LARGEST_OVERLAP, PRIOR, overlapped

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NetworkFit:
    """net = local_seconds + local_seconds_per_gpu x (n - 2); a step is (compute^k + net^k)^(1/k)."""

    local_seconds: float
    local_seconds_per_gpu: float
    overlap: float
    """k."""
    most: int
    """Workers that were measured."""
    off: Mapping[tuple[int, int], float]
    """Predicted over measured seconds, less 1, by workers and samples; those of the compared point too."""

    def error(self, compared: tuple[int, int] | None) -> str:
        """A sentence on how far it is off, and on what is assumed."""
        fitted = [abs(off) for point, off in self.off.items() if point != compared]
        which = "two" if self.most == 2 else f"2 to {self.most}"
        sentences = [
            f"seconds of {counted(len(fitted), 'step')} of {which} workers on one machine: "
            f"median {percent(median(fitted))}, worst {percent(max(fitted))}"
        ]
        if compared is not None:
            workers, samples = compared
            what = f"of {workers} workers with {counted(samples, 'sample')} each, which was not fitted"
            sentences.append(f"{what}: {percent(abs(self.off[compared]))}")
        if self.most == 2:
            sentences.append("local_seconds_per_gpu is assumed, as other applications have it on T4 GPUs")
        return "; ".join(sentences)


def network_fit_of(profile: Profile) -> NetworkFit | None:
    """What several workers showed; None where none ran, or where no line of compute was fitted."""
    line = None if profile.compute is None else fit_of(profile.compute)
    if line is None or profile.workers is None or not profile.workers.rates:
        return None
    return fit_network(line.line, profile.workers)


def fit_network(line: ComputeLine, workers: WorkersProfile) -> NetworkFit:
    """The numbers that fit best beside this line of compute."""
    took = {point: 1 / rate.steps_per_s for point, rate in workers.rates.items()}
    longest, most = max(took.values()), max(count for count, _ in took)
    local = longest * np.append(0.0, np.geomspace(1e-3, 1.0, 300))
    # Where only two workers were measured, four have what other applications have.
    growth = float(np.exp(PRIOR.mean[1]) * np.log(2) / 2)
    per_gpu = local * growth if most == 2 else longest * np.append(0.0, np.geomspace(1e-4, 0.5, 60))[:, None]
    overlaps = np.linspace(1.0, LARGEST_OVERLAP, 91)
    best, found = np.inf, (0.0, 0.0, 1.0)
    for overlap in overlaps.tolist():
        squares = np.zeros(np.broadcast_shapes(local.shape, per_gpu.shape))
        for (count, samples), seconds in took.items():
            if (count, samples) != workers.compared:
                net = local + per_gpu * (count - 2)
                steps = overlapped(np.array(line.seconds(samples)), net, overlap)
                squares += (steps / seconds - 1) ** 2
        at = np.unravel_index(int(squares.argmin()), squares.shape)
        if squares[at] < best:
            best, of_each = float(squares[at]), np.broadcast_to(per_gpu, squares.shape)
            found = (float(local[at[-1]]), float(of_each[at]), overlap)
    first, growing, overlap = found
    off = {}
    for (count, samples), seconds in took.items():
        compute, net = np.array(line.seconds(samples)), np.array(first + growing * (count - 2))
        off[count, samples] = float(overlapped(compute, net, overlap)) / seconds - 1
    return NetworkFit(first, growing, overlap, most, off)
