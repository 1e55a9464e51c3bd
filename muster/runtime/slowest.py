"""Each job's slowest moment against the GPU-proportional share: what Synergy's allocations promise, measured.

Speed is that of CPU, memory and storage alone (`speed.points`). There are two measures: the share of the machines
that a job was on, and the share of the slowest machines that it may use. Jobs of a share of a GPU, in turns on one or
with workers and servers have neither.
"""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import WHOLE, Bools, Floats, Ints, NodeArray, count_bits
from muster.compiling import njit
from muster.runtime.allocation_lifecycle import HeldArray
from muster.speed.input_pipeline import ModelTable
from muster.speed.kernels import speed_at
from muster.workload.jobs import AskedArray, JobTable
from muster.workload.sized import RIGID


def slowest_moments(held: HeldArray, table: JobTable, models: ModelTable, nodes: NodeArray) -> Floats:
    """By job and measure: the least of its speed over that with the share; NaN where there is none."""
    lasted = np.flatnonzero(held["to"] > held["from"])
    order = lasted[np.lexsort((held["from"][lasted], held["job"][lasted]))]
    return _slowest(held, order, table.asked, table.node_allowed, models, nodes)


@njit(cache=True)
def _slowest(
    held: HeldArray, order: Ints, asked: AskedArray, node_allowed: Bools, models: ModelTable, nodes: NodeArray
) -> Floats:
    least = np.full((len(asked), 2), np.nan)
    of_slowest = np.full((len(models), len(node_allowed)), np.nan)
    at = 0
    while at < len(order):
        first = held[order[at]]
        job, since = first["job"], first["from"]
        model: int = asked[job]["model"]
        constraint: int = asked[job]["constraint"]
        is_known: bool = asked[job]["sync"] == RIGID
        speed = fair = np.inf
        while at < len(order) and held[order[at]]["job"] == job and held[order[at]]["from"] == since:
            row = held[order[at]]
            is_known = is_known and row["milli"] == WHOLE and row["group"] < 0 and row["mask"] != 0
            if is_known:
                node = nodes[row["node"]]
                here = models[model]["on_type"][node["gpu_type"]]
                held_here: Ints = row["amount"] // count_bits(row["mask"])
                speed = min(speed, speed_at(models, here, held_here))
                fair = min(fair, speed_at(models, here, node["share"]))
            at += 1
        if not is_known:
            continue
        if np.isnan(of_slowest[model, constraint]):
            of_slowest[model, constraint] = _with_slowest_share(
                models, model, nodes, node_allowed[constraint]
            )
        for measure, share in enumerate((fair, of_slowest[model, constraint])):
            if share > 0:
                least[job, measure] = np.fmin(least[job, measure], speed / share)
    return least


@njit(cache=True)
def _with_slowest_share(models: ModelTable, model: int, nodes: NodeArray, allowed: Bools) -> float:
    """Speed with the share of the slowest of these machines."""
    slowest = np.inf
    for node in range(len(nodes)):
        if allowed[node] and nodes[node]["gpus"] > 0:
            here = models[model]["on_type"][nodes[node]["gpu_type"]]
            slowest = min(slowest, speed_at(models, here, nodes[node]["share"]))
    return slowest
