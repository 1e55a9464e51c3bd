"""The network of one machine, from the steps of several workers: `[network.measured]` as far as one machine shows it.

The law of `speed.scaling` is fitted to all steps, those of one worker too; what several workers leave open stays near
what six applications have in common. How fast two machines are it cannot say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from muster.formatting import counted, percent
from muster.profiling.compute import ComputeLine, ComputeProfile
from muster.profiling.workers import WorkersProfile
from muster.speed.scaling import StepTimes, fit_scaling


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


def fit_network(compute: ComputeProfile, line: ComputeLine, workers: WorkersProfile) -> NetworkFit:
    """The most likely numbers; `off` is of `line` and these, as simulator and scheduler go by them."""
    seconds = {(1, samples): 1 / rate.steps_per_s for samples, rate in compute.rates.items()}
    several = {point: 1 / rate.steps_per_s for point, rate in workers.rates.items()}
    left_out = {(1, compute.compared), workers.compared}
    fitted = {point: took for point, took in (seconds | several).items() if point not in left_out}
    gpus, batch = np.array(list(fitted), dtype=float).T
    unknown = np.full(len(fitted), np.nan)
    law = fit_scaling(StepTimes(np.ones(len(fitted)), gpus, batch, np.array(list(fitted.values())), unknown))
    # Where only two workers were measured, four are as the other applications have them.
    most = max(count for count, _ in several)
    counts = np.array([2.0, max(most, 4)])
    local, at_most = law.network_seconds(np.ones(2), counts).tolist()
    per_gpu = (at_most - local) / (counts[1] - 2)
    off = {}
    for (count, samples), took in several.items():
        alone, net = line.seconds(samples), local + per_gpu * (count - 2)
        longer = max(alone, net)
        shares = (alone / longer) ** law.overlap + (net / longer) ** law.overlap
        off[count, samples] = float(longer * shares ** (1 / law.overlap) / took - 1)
    return NetworkFit(local, float(per_gpu), law.overlap, most, off)
