"""How fast jobs go on other sizes by their models, each with the total batch that advances it most there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from muster.cluster.ledger_arrays import Bools, Floats, Ints
from muster.schedulers.allocation.draft_allocator import AllocationInput
from muster.schedulers.allocation.gangs import GangForms, forms_of
from muster.schedulers.contract import Snapshot
from muster.speed.local_batch import local_batches
from muster.speed.statistical_efficiency import gain
from muster.speed.worker_options import worker_options

ANY_TYPE = -1
"""In place of the number of a type of GPU: whichever."""


class TypedSizes(NamedTuple):
    """A number of GPUs of a type for each of some jobs; one job may have several rows."""

    at: Ints
    """Position of the job."""
    gpus: Ints
    gpu_type: Ints
    """Number of the type in the cluster, or `ANY_TYPE`."""

    def rows(self, kept: Ints | Bools) -> TypedSizes:
        """Return some of the rows."""
        return TypedSizes(self.at[kept], self.gpus[kept], self.gpu_type[kept])


class TotalBatches(NamedTuple):
    """Total batches, a row for each of some jobs on some size."""

    whole: Ints
    """GPUs that take so much in all with the model's own batch: those asked for, doubled as often as the batch."""
    gain: Floats
    """Iterations of the initial batch that one iteration makes."""


def best_batches(given: AllocationInput, sizes: TypedSizes) -> TotalBatches:
    """Return the batch with which each job advances fastest, on the best place and the best machines of its type.

    A job whose batch is fixed has its initial one; so has one to which a larger batch gains nothing.
    """
    jobs = given.snapshot.jobs
    asked, most = jobs.gpus[sizes.at], jobs.most_doublings[sizes.at]
    whole, gains = asked.copy(), np.ones(len(asked))
    if not most.any():
        return TotalBatches(whole, gains)
    fastest, noise = np.zeros(len(asked)), jobs.noise[sizes.at]
    for doublings in range(int(most.max()) + 1):
        rows = np.flatnonzero((most >= doublings) & (most > 0))
        larger, more = asked[rows] << doublings, gain(2.0**doublings, 1.0, noise[rows])
        progress = more * _speeds_at_best_place(given, sizes.rows(rows), larger)
        better = progress > fastest[rows]
        at = rows[better]
        fastest[at], whole[at], gains[at] = progress[better], larger[better], more[better]
    return TotalBatches(whole, gains)


def modelled_speeds(given: AllocationInput, sizes: TypedSizes) -> Floats:
    """Return the speeds of jobs on so many GPUs by their models, on the machines of the type that suit them best.

    They are progress in iterations of the initial batch, relative to the reference, with each job's best batch, and
    with the communication that the best place leaves exposed.
    """
    batches = best_batches(given, sizes)
    return batches.gain * _speeds_at_best_place(given, sizes, batches.whole)


def forms_with(snapshot: Snapshot, gpus: Ints, whole: Ints) -> GangForms:
    """Return the forms of the jobs with so many GPUs each; of those whose batch varies, as with that batch."""
    forms, jobs = forms_of(snapshot, gpus), snapshot.jobs
    varying = np.flatnonzero(jobs.most_doublings)
    if snapshot.forms is None or not len(forms.line) or not len(varying):
        return forms
    models, each = snapshot.resource_profiles.models, whole[varying] / gpus[varying]
    _, _, last_pass = local_batches(models, jobs.model[varying], each)
    line = forms.line.copy()
    line[varying], every = snapshot.forms.of(jobs.model[varying], gpus[varying], last_pass)
    return forms._replace(
        line=line, kinds=every.kinds, speeds=every.speeds, share_anywhere=every.share_anywhere
    )


def of_type(given: AllocationInput, gpu_type: int) -> Bools:
    """Which nodes have GPUs of a type."""
    nodes = given.snapshot.ledger.books.nodes
    matching: Bools = (nodes["gpus"] > 0) & is_type(nodes["gpu_type"], gpu_type)
    return matching


def is_type(types: Ints, wanted: Ints | int) -> Bools:
    """Which of the types are the wanted one, or that of their row."""
    same: Bools = (types == wanted) | (wanted == np.array(ANY_TYPE))
    return same


def _speeds_with(given: AllocationInput, sizes: TypedSizes, whole: Ints) -> Floats:
    """Return the speeds of jobs, in iterations of the total batches of `whole` GPUs, as if nothing communicated."""
    jobs, profiles = given.snapshot.jobs, given.snapshot.resource_profiles.below_share
    model, requested = jobs.model[sizes.at], jobs.requested_per_gpu[sizes.at]
    classes, demands = profiles.of(profiles.sized(model, whole, sizes.gpus), sizes.gpus, requested)
    fastest = np.zeros(len(classes))
    for each in np.unique(sizes.gpu_type).tolist():
        rows = sizes.gpu_type == each
        kinds = np.unique(given.gangs.kind_of_node[of_type(given, each)])
        fastest[rows] = demands.best_speed[:, kinds].max(axis=1)[classes[rows]]
    return fastest


def _speeds_at_best_place(given: AllocationInput, sizes: TypedSizes, whole: Ints) -> Floats:
    """Return the same with the communication that the best place leaves exposed."""
    snapshot, speeds = given.snapshot, _speeds_with(given, sizes, whole)
    model = snapshot.jobs.model[sizes.at]
    if snapshot.forms is None or not snapshot.forms.some_sensitive(model, sizes.gpus):
        return speeds
    models = snapshot.resource_profiles.models
    for each in np.unique(sizes.gpu_type).tolist():
        rows = sizes.gpu_type == each
        options = worker_options(
            models,
            snapshot.forms,
            model[rows],
            whole[rows],
            sizes.gpus[rows],
            None if each == ANY_TYPE else each,
        )
        computing = models["reference_seconds"][model[rows]] / options.seconds[:, 0]
        speeds[rows] = np.minimum(speeds[rows], computing)
    return speeds
