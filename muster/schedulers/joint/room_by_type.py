"""On how many GPUs of an empty cluster jobs have what they request, by type of GPU."""

from __future__ import annotations

import numpy as np

from muster.cluster.distinct_rows import distinct_rows
from muster.cluster.ledger_arrays import GPU, MICRO, Bools, Ints, NodeArray
from muster.schedulers.joint.modelled_speeds import is_type


def room_by_type(
    nodes: NodeArray, types: Ints, requested: Ints, node_allowed: Bools, constraint: Ints
) -> Ints:
    """Return by type, then by job, the GPUs of its nodes beside which there is what it requests for each.

    `requested` has a row for each job, by GPU; `node_allowed` one for each constraint.
    """
    usable = nodes["capacity"] - nodes["unavailable"]
    asks, kind = distinct_rows(np.column_stack([requested, constraint]))
    alike, node_kind = distinct_rows(np.column_stack([usable, nodes["gpu_type"]]))
    room = np.repeat(alike[None, :, GPU] // MICRO, len(asks), axis=0)
    for nth in np.flatnonzero(requested.any(axis=0)).tolist():
        need = asks[:, nth, None]
        room = np.minimum(room, np.where(need > 0, alike[:, nth] // np.maximum(need, 1), room))
    of_kind = node_kind[:, None] == np.arange(len(alike))
    count = node_allowed.astype(np.int64) @ of_kind
    gpus = room * count[asks[:, -1]]
    return np.array([gpus[:, is_type(alike[:, -1], each)].sum(axis=1)[kind] for each in types.tolist()])
