"""The speed law of the Synergy authors' simulator, as models: the whole best-case demand or nothing gained.

Their program looks at no matrix: a job that holds all of its published demand runs at the speed of that
demand, which for a gang cut to one machine follows the CPUs that are left. Where the matrix says otherwise,
the jobs of that size get a model of two levels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muster.cluster import Cluster
from muster.cluster.ledger import Ledger
from muster.cluster.ledger_arrays import MICRO, Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.speed.demands import ResourceProfiles
from muster.speed.input_pipeline import model_table
from muster.speed.points import speed_at
from muster.workload.jobs import JobTable
from muster.workload.models import Model


def with_published_speeds(table: JobTable, cluster: Cluster) -> JobTable:
    """The jobs with the models that the authors' law gives them on the cluster's first machine with GPUs."""
    models = model_table(table.models)
    nodes = Ledger(cluster, 0).books.nodes
    book = ResourceProfiles(models, nodes[nodes["gpus"] > 0][:1])
    share: Ints = book.kinds[0]["share"]
    asked = table.asked.copy()
    added: dict[tuple[int, int], Model] = {}
    nothing = np.zeros((1, RESOURCE_COUNT), np.int64)
    for number, gpus in np.unique(np.column_stack([asked["model"], asked["gpus"]]), axis=0).tolist():
        model = table.models[number]
        if model is None:
            continue
        (of_these,), demands = book.of(np.array([number]), np.array([gpus]), nothing)
        demand = demands.published[of_these, 0]
        speed = float(demands.published_speed[of_these, 0])
        if abs(speed_at(models, number, demand) - speed) > 1e-9:
            at_share = float(demands.fair_speed[of_these, 0])
            asked["model"][(asked["model"] == number) & (asked["gpus"] == gpus)] = len(models) + len(added)
            added[number, gpus] = _two_levels(model, share, demand, at_share, speed)
    return replace(
        table,
        asked=asked,
        models=(*table.models, *added.values()),
        model_names=(*table.model_names, *(table.model_names[number] for number, _ in added)),
    )


def _two_levels(model: Model, share: Ints, demand: Ints, at_share: float, at_demand: float) -> Model:
    """One speed at the share and one with the whole demand; no job here holds an amount between them."""
    cpus, memory = (
        tuple(sorted({int(share[resource]) / MICRO, int(demand[resource]) / MICRO})) for resource in (1, 2)
    )
    enough = np.outer(np.array(cpus) >= demand[1] / MICRO, np.array(memory) >= demand[2] / MICRO)
    speed = np.where(enough, at_demand, at_share)
    return replace(
        model,
        cpus_per_gpu=cpus,
        memory_gb_per_gpu=memory,
        speed=tuple(tuple(row) for row in speed.tolist()),
        dataset=None,
    )
