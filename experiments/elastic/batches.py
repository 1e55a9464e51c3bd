"""How many samples each GPU takes at a time: the rule that both Sia's and Gavel's runs use for a fixed batch."""

from __future__ import annotations

from math import ceil, floor
from typing import NamedTuple

from experiments.elastic.step_times import Placement, StepTimes

_ROUNDING = 1e-8


class Batch(NamedTuple):
    """Samples of one GPU in one pass, and passes beside the first one before gradients are synchronised."""

    per_gpu: int
    accumulation: int

    def total(self, gpus: int) -> int:
        """Samples of an iteration on so many GPUs."""
        return gpus * self.per_gpu * (self.accumulation + 1)


def fixed_batch(requested: int, placement: Placement, times: StepTimes, initial: int, most: int) -> Batch:
    """The requested batch on a placement; `initial` and `most` are the application's batches."""
    gpus = sum(placement)
    each = ceil(requested / gpus - _ROUNDING)
    accumulation = ceil(each / times.largest_batch(placement) - _ROUNDING) - 1
    if gpus == 1 and requested > initial:
        accumulation = max(accumulation, 1)
    per_gpu = ceil(each / (accumulation + 1) - _ROUNDING)
    limits = times.largest_batch_of_gpus(gpus), floor(most / (gpus * (accumulation + 1)))
    return Batch(int(min(per_gpu, *limits)), accumulation)


def iteration_seconds(times: StepTimes, placement: Placement, batch: Batch) -> float:
    """Seconds of an iteration: of its passes, only the last one synchronises."""
    step, sync = times.of(placement, batch.per_gpu)
    return step + (step - sync) * batch.accumulation
