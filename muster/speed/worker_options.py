"""How long an iteration of a data-parallel gang takes with other numbers of workers: what schedulers size it by.

A gang that asks for G GPUs trains with a fixed total batch, G times the batch of its model. On n GPUs each takes its
part of it, b samples, rounded up: the GPU with most samples holds the others up. With C the compute seconds of a pass
over the model's own batch B, and f the part of C that a pass takes however few its samples:

    seconds = max(input, compute + exposed)
    input   = b / B x the input stage's seconds for B samples, with the CPU and memory beside each GPU
    compute = passes x (f C + (1 - f) C b / (B passes)),  passes = ceil(b / samples that a GPU holds at once)
    exposed = what the last pass leaves exposed of the all-reduce over n GPUs on their place; its bytes do not
              depend on the batch

Samples of a pass are whole. What the update of the weights takes is in C. With n = G all of it is what the model's
matrix and network profile say. The model file states f and the samples that a GPU holds (`[compute]`); without it
f is 0, and a GPU holds the model's own batch. A model without a profile computes in proportion to b and needs no
input. Memory beside a GPU counts as in the matrix: the cache that a GPU needs does not grow as the gang shrinks.

The simulator's rates are the same law (`rates_core`), on the place that the gang really has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.cluster.ledger_arrays import Floats, Ints
from muster.speed.input_pipeline import ModelTable
from muster.speed.local_batch import input_needs, input_seconds, local_batches
from muster.speed.network.forms import PlacementShapes


@dataclass(frozen=True, eq=False)
class WorkerOptions:
    """Some gangs, each with one number of workers; every array has a row for each."""

    records: Ints
    """Records of the table of models, on the gang's type of GPU."""
    local_batches: Floats
    """Samples of each GPU an iteration, in batches of the model."""
    passes: Floats
    """Forward and backward passes over them (gradient accumulation)."""
    compute_seconds: Floats
    """An iteration."""
    kinds: Ints
    """Kind, machines and racks of each form of a place, as `forms.Forms`, the fastest first; -1 ends the list."""
    seconds: Floats
    """An iteration by form, if no GPU waits for input: compute and exposed communication; inf after the last form."""
    _models: ModelTable

    def input_seconds(self, cpus: Floats, memory_gb: Floats, storage_gb_per_s: Floats) -> Floats:
        """Seconds an iteration of the input stage with these amounts beside each GPU."""
        return input_seconds(
            self._models, self.records, self.local_batches, cpus, memory_gb, storage_gb_per_s
        )

    def input_needs(self, seconds: Floats) -> tuple[Floats, Floats]:
        """The least CPUs a GPU with which input takes at most so long, and the GB a GPU they go with, by memory point.

        With storage that is fast enough; infinite where no number of CPUs suffices.
        """
        return input_needs(self._models, self.records, self.local_batches, seconds)


def worker_options(
    models: ModelTable,
    shapes: PlacementShapes,
    model: Ints,
    asked: Ints,
    workers: Ints,
    gpu_type: int | None = None,
) -> WorkerOptions:
    """What iterations take of gangs of `model` that asked for `asked` GPUs, on `workers` of them.

    A job with several candidate numbers of workers has a row for each. `gpu_type` is the cluster's number of a type
    of GPU; None: each model's reference.
    """
    records: Ints = model if gpu_type is None else models["on_type"][model, gpu_type]
    samples, passes, last_pass = local_batches(models, records, asked / workers)
    line, forms = shapes.of(model, workers, last_pass)
    reference = models["compute_seconds"][records]
    compute = reference * (passes * last_pass)
    kinds, speeds = forms.kinds[line], forms.speeds[line]
    with np.errstate(divide="ignore"):
        exposed = (reference * last_pass)[:, None] * (1 / speeds - 1)
    return WorkerOptions(records, samples, passes, compute, kinds, compute[:, None] + exposed, models)
