"""A model whose speed on two numbers of GPUs is measured, for a simulation of a job that changes its size."""

from __future__ import annotations

from dataclasses import replace

from muster.workload.models import Compute, Model

_PARTS = 1_000_000
"""Of a sample, each of which counts as one: so many that no GPU's part of a batch is rounded up."""
_MOST_FIXED = 0.999
"""Of an iteration, what fewer samples do not shorten: at most, as a pass over no samples takes less than all."""


def as_measured(model: Model, name: str, usual: int, other: int, faster: float) -> Model:
    """Return a model that is `faster` times as fast on other GPUs as on the usual ones, of one total batch.

    On other sizes an iteration is linear in the samples of a GPU. Its input stage is kept; a network does not count.
    """
    part = usual / other
    fixed = min(max((1 / faster - part) / (1 - part), 0.0), _MOST_FIXED)
    batch = (model.batch or 1) * _PARTS
    data = model.dataset
    data = None if data is None else replace(data, sample_gb=data.sample_gb / _PARTS)
    compute = replace(
        model.compute or Compute(0.0), fixed_samples=batch * fixed / (1 - fixed), largest_batch=batch * usual
    )
    return replace(model, name=name, aliases=(), batch=batch, compute=compute, dataset=data, network=None)


def model_of_steps(seconds: float) -> Model:
    """Return a model of which only the measured seconds of a step are known."""
    return Model("", "", 0, seconds, 1.0, 1.0, (), (), (), source="measured steps", licence="none")
