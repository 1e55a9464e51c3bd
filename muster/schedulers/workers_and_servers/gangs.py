"""Jobs without `sync` beside those that are sized: gangs, whose one size is what they asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muster.cluster.ledger_arrays import CPU, GPU, MEMORY, MICRO
from muster.schedulers.contract import Snapshot
from muster.workload.jobs import JobTable
from muster.workload.sized import RIGID


def with_gangs(snapshot: Snapshot) -> JobTable:
    """The table with the view's gangs as rings of fixed size: a worker a GPU, at the speed that the gang is known by.

    A worker holds what the owner asked for, else its GPU's proportional share on the machine that has the least.
    """
    table, jobs = snapshot.table, snapshot.jobs
    gangs = jobs.index[table.asked["sync"][jobs.index] == RIGID]
    if not len(gangs):
        return table
    asked, sized = table.asked.copy(), table.sized.copy()
    asked["terms"][gangs] = 0.0
    asked["terms"][gangs, :, 1] = (asked["ideal"][gangs] / asked["iterations"][gangs])[:, None]
    nodes = snapshot.ledger.books.nodes
    least_share = nodes["share"][nodes["gpus"] > 0].min(axis=0) / MICRO
    sized["worker"][gangs] = 0.0
    sized["worker"][gangs, GPU] = 1.0
    for resource in (CPU, MEMORY):
        stated = asked["requested"][gangs, resource] / MICRO / asked["gpus"][gangs]
        sized["worker"][gangs, resource] = np.where(stated >= 0, stated, least_share[resource])
    sized["limit"][gangs] = np.inf
    for field in ("min_workers", "max_workers"):
        sized[field][gangs] = asked["gpus"][gangs]
    return replace(table, asked=asked, sized=sized)
