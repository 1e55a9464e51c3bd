"""By which model a simulation of the queue takes a job: its known one, or one with the law of its measured steps."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.service.learned_sizes import LearnedSizes
from muster.service.store.rows import JobRow
from muster.speed.gains import stages_of
from muster.speed.input_pipeline import model_table
from muster.speed.measured_model import as_measured, model_of_steps
from muster.speed.rates import reference_seconds
from muster.workload.models import Model


def simulated_model(
    row: JobRow,
    known: Model | None,
    held: Sequence[NodeAllocation[str]],
    learned: LearnedSizes,
    cluster: Cluster,
) -> Model | None:
    """Return the model that a simulation takes a job to have; None: nothing is known of it.

    Where its steps are measured, that has them on the GPUs that it asks for and on those that it holds (else on the
    most or fewest that it may have); in between an iteration is linear in the samples of a GPU.
    """
    usual, (fewest, most) = row.usual_gpus, row.gpu_bounds
    sizes = (round(sum(here.gpus for here in held)), most, fewest)
    other = next((size for size in sizes if size not in (0, usual)), usual)
    faster = learned.usual_over(row, other, cluster.most_gpus_per_node)
    if fewest == most or other == usual or faster is None:
        return known
    name = f"{row.request.model or row.id!r} as measured on {usual} and {other}"
    if known is None:
        known = model_of_steps(_usual_seconds(row, learned, cluster))
    return as_measured(known, name, usual, other, faster)


def times_usual(
    row: JobRow, model: Model | None, held: Sequence[NodeAllocation[str]], cluster: Cluster
) -> float:
    """Return how many times as fast as on the GPUs that it asks for a simulation takes a job to be on what it holds.

    1 for one that keeps its size or holds none. It is as fast as its GPUs are many without a model, and where that says
    that the job stands still.
    """
    fewest, most = row.gpu_bounds
    if fewest == most or not held:
        return 1.0
    in_proportion = sum(here.gpus for here in held) / row.usual_gpus
    if model is None:
        return in_proportion
    times = seconds_at_share(model, cluster) / seconds_on(row, model, held, cluster)
    return times if 0 < times < inf else in_proportion


def seconds_at_share(model: Model, cluster: Cluster) -> float:
    """Return the seconds of an iteration on the GPUs that a job asks for, with their share of the cluster."""
    return reference_seconds(model_table([model]), 0, cluster.share_per_gpu)


def seconds_on(row: JobRow, model: Model, held: Sequence[NodeAllocation[str]], cluster: Cluster) -> float:
    """Return the seconds of an iteration on what a job holds."""
    asked = row.usual_gpus * row.request.gpu_share
    return stages_of(model, cluster, held, asked).total


def _usual_seconds(row: JobRow, learned: LearnedSizes, cluster: Cluster) -> float:
    """Return the seconds of a step on the GPUs that a job asks for, as learned."""
    gpus = np.array([row.usual_gpus])
    nodes = -(-gpus // cluster.most_gpus_per_node)
    (seconds,) = learned.seconds_per_iteration(np.array([row.id]), gpus, nodes, "").tolist()
    return float(seconds)
