"""Each job's slowest moment against the GPU-proportional share: what Synergy's allocations promise, measured.

Speed is that of CPU, memory and storage alone (`speed.points`). There are two measures: the share of the machines
that a job was on, and the share of the slowest machines that it may use. Jobs of a share of a GPU, in turns on one or
with workers and servers have neither.
"""

from __future__ import annotations

from muster.cluster.ledger_arrays import Floats, NodeArray
from muster.runtime.allocation_lifecycle import HeldArray
from muster.runtime.slowest_core import slowest_by_job
from muster.speed.input_pipeline import ModelTable
from muster.workload.jobs import JobTable


def slowest_moments(held: HeldArray, table: JobTable, models: ModelTable, nodes: NodeArray) -> Floats:
    """By job and measure: the least of its speed over that with the share; NaN where there is none.

    Rows of one job and interval are adjacent, as they are recorded.
    """
    return slowest_by_job(held, table.asked, table.node_allowed, models, nodes)
