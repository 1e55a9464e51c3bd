"""How the step of a data-parallel job grows with its GPUs, machines and batch, fitted to a few measured steps.

    compute = fixed + b x per_sample                       b samples of each GPU
    net     = 0                                            on one GPU
              local (1 + local_growth ln(n / 2))           n GPUs of one machine
              pair (1 + pair_growth ln(n / 2))             of two machines
              spread (1 + spread_growth ln(n / m) + machine_growth ln(m / 3))    of m machines
    step    = (compute^k + net^k)^(1/k)                    k from 1 (nothing overlaps) to 10 (Pollux §3.2)

Two machines stand apart, because their measured steps do: a gang with several GPUs on each of them is slower than on
three. A few steps do not determine ten numbers: the others are kept near what six applications have in common
(`PRIOR`), each as closely as these agree. The fit is the most likely law, and a single odd step pulls it little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster.cluster.portable_math import exp, log, power

Floats = npt.NDArray[np.float64]

LARGEST_OVERLAP = 10.0
OUTLIER = 0.06
"""Relative error from which a measurement pulls the fit less than its square."""
_OVERLAP_STARTS = (-2.0, 0.0, 2.0)
"""Logits of (k - 1) / 9 from which the search sets out."""
_STEPS, _TRIALS = 60, 8
_OWN_SPREAD = np.array([2.0, 1.0, 2.0])
"""Of the numbers of which other applications say nothing: fixed, per_sample and pair, as logarithms."""


@dataclass(frozen=True)
class StepTimes:
    """Measured steps of one application; every array has a row for each."""

    machines: Floats
    gpus: Floats
    batch: Floats
    """Samples of each GPU."""
    seconds: Floats
    compute_seconds: Floats
    """Of them, without what waits for gradients; NaN: not measured."""

    def at(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> StepTimes:
        """Some of the rows."""
        return StepTimes(
            self.machines[rows],
            self.gpus[rows],
            self.batch[rows],
            self.seconds[rows],
            self.compute_seconds[rows],
        )


@dataclass(frozen=True)
class Prior:
    """What is known of a law before anything is measured: of each logarithm the mean, and how far it may be off."""

    mean: Floats
    spread: Floats


PRIOR = Prior(
    np.array([-1.44, -0.31, -0.12, -0.13, -0.81, -2.33, -0.85]),
    np.array([0.29, 0.89, 0.24, 0.15, 0.58, 1.1, 0.57]),
)
"""Of local / pair, local_growth, pair_growth, spread / pair, spread_growth, the overlap's logit and machine_growth.

It is what the laws of six applications on T4 GPUs have in common (`experiments.fitting.scaling`)."""


@dataclass(frozen=True)
class ScalingLaw:
    """The numbers of the law, as logarithms but for the overlap: fixed, per_sample, pair, then those of `PRIOR`."""

    numbers: Floats

    @property
    def fixed_seconds(self) -> float:
        """Of a pass, however few its samples."""
        return float(exp(self.numbers[0]))

    @property
    def seconds_per_sample(self) -> float:
        """Of each GPU."""
        return float(exp(self.numbers[1]))

    @property
    def overlap(self) -> float:
        """k."""
        return 1.0 + (LARGEST_OVERLAP - 1.0) / (1.0 + float(exp(-self.numbers[8])))

    def compute_seconds(self, batch: Floats) -> Floats:
        """Of a pass over so many samples."""
        seconds: Floats = self.fixed_seconds + self.seconds_per_sample * batch
        return seconds

    def network_seconds(self, machines: Floats, gpus: Floats) -> Floats:
        """What reducing the gradients takes, hidden or not."""
        pair, local, local_growth, pair_growth, spread, spread_growth = exp(self.numbers[2:8]).tolist()
        machine_growth = float(exp(self.numbers[9]))
        beyond = log(np.maximum(gpus, 2) / 2)
        in_one = pair * local * (1 + local_growth * beyond)
        in_two = pair * (1 + pair_growth * beyond)
        a_machine, further = log(gpus / machines), log(np.maximum(machines, 3) / 3)
        in_more = pair * spread * (1 + spread_growth * a_machine + machine_growth * further)
        seconds: Floats = np.select([gpus <= 1, machines == 1, machines == 2], [0.0, in_one, in_two], in_more)
        return seconds

    def step_seconds(
        self, machines: Floats, gpus: Floats, batch: Floats, passes: Floats | float = 1.0
    ) -> Floats:
        """An iteration of so many passes over `batch` samples each; the last one hides communication."""
        compute, network = self.compute_seconds(batch), self.network_seconds(machines, gpus)
        seconds: Floats = overlapped(compute, network, self.overlap) + (passes - 1.0) * compute
        return seconds


def overlapped(compute: Floats, network: Floats, overlap: float) -> Floats:
    """(compute^k + network^k)^(1/k)."""
    longer = np.maximum(compute, network)
    shares = power(compute / longer, overlap) + power(network / longer, overlap)
    seconds: Floats = longer * power(shares, 1.0 / overlap)
    return seconds


def fit_scaling(times: StepTimes, prior: Prior = PRIOR) -> ScalingLaw:
    """The most likely law of these steps; the best of a few starts."""
    compute = np.where(np.isnan(times.compute_seconds), times.seconds, times.compute_seconds)
    typical, batch = float(np.median(compute)), float(np.median(times.batch))
    own = log([0.3 * typical, 0.7 * typical / batch, 0.3 * float(np.median(times.seconds))])
    # The overlap stands before the growth with machines.
    mean, spread = np.concatenate([own, prior.mean]), np.concatenate([_OWN_SPREAD, prior.spread])

    def errors(numbers: Floats) -> Floats:
        law = ScalingLaw(numbers)
        steps = log(law.step_seconds(times.machines, times.gpus, times.batch) / times.seconds)
        alone = np.nan_to_num(log(law.compute_seconds(times.batch) / times.compute_seconds))
        pulls = np.concatenate([_tempered(steps / OUTLIER), _tempered(alone / OUTLIER)])
        return np.concatenate([pulls, (numbers - mean) / spread])

    starts = [np.concatenate([mean[:8], [start], mean[9:]]) for start in _OVERLAP_STARTS]
    numbers, _ = min((_least_squares(errors, start) for start in starts), key=lambda found: found[1])
    return ScalingLaw(numbers)


def _tempered(errors: Floats) -> Floats:
    """Errors whose squares grow in proportion to the error, where it is large."""
    tempered: Floats = np.sign(errors) * np.sqrt(2.0 * (np.sqrt(1.0 + errors**2) - 1.0))
    return tempered


def _least_squares(errors: Callable[[Floats], Floats], start: Floats) -> tuple[Floats, float]:
    """The nearest minimum of the sum of squares, and that sum (Levenberg and Marquardt)."""
    numbers, damping = start, 1e-2
    found = errors(numbers)
    cost = float(found @ found)
    for _ in range(_STEPS):
        slopes = np.column_stack(
            [(errors(numbers + change) - found) / 1e-6 for change in 1e-6 * np.eye(len(numbers))]
        )
        squares, downhill = slopes.T @ slopes, slopes.T @ found
        for _ in range(_TRIALS):
            damped = squares + damping * np.diag(np.diag(squares) + 1e-9)
            tried = numbers - np.linalg.solve(damped, downhill).clip(-2.0, 2.0)
            there = errors(tried)
            gained = cost - float(there @ there)
            if gained > 0:
                break
            damping *= 4.0
        else:
            break
        numbers, found, cost, damping = tried, there, cost - gained, max(damping / 5.0, 1e-9)
        if gained < 1e-9 * cost:
            break
    return numbers, cost
