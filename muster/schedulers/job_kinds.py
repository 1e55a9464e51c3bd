"""Which jobs are alike for compiled schedulers: where one of a kind has a place, so has another."""

from __future__ import annotations

import numpy as np

from muster.cluster.ledger_arrays import MICRO, WHOLE, Ints
from muster.schedulers.contract import Snapshot
from muster.schedulers.parts import (
    Allocation,
    options_of,
)
from muster.schedulers.placement.job_columns import PROPORTIONAL


def kinds(allocation: Allocation, snapshot: Snapshot) -> tuple[Ints, Ints, Ints]:
    """The kind of each job, and of each kind its GPUs in all in millionths and what one needs, by resource.

    Jobs of a kind have the same demand, needs and constraint. The first column has a place for every job of the table;
    those that are not in the snapshot count as of the first kind.
    """
    asked, index = snapshot.table.asked, snapshot.jobs.index
    needs = options_of(allocation, snapshot, snapshot.jobs)[:, 0]
    if (needs == PROPORTIONAL).all():
        needs = needs[:1]
    columns = [asked[name][index] for name in ("gpus", "milli", "constraint")] + list(needs.T)
    own = np.zeros(len(index), np.int64)
    for column in columns:
        if column.min() < column.max():
            values, number = np.unique(column, return_inverse=True)
            _, own = np.unique(own * len(values) + number, return_inverse=True)
    _, first = np.unique(own, return_index=True)
    table = np.column_stack([np.broadcast_to(column, len(index))[first] for column in columns])
    demands = table[:, 0] * table[:, 1] * (MICRO // WHOLE)
    kind_of = np.zeros(len(asked), np.int64)
    kind_of[index] = own
    return kind_of, demands, np.ascontiguousarray(table[:, 3:])
