"""The ledger's books: which job holds what on which node, as plain arrays. `ledger_core` has the steps that write them.

Amounts are whole millionths of a unit (`MICRO`), so that what is taken and given back balances to the
last digit. GPU ids of a node are bits of one integer. An allocation is a chain of rows, one row a node
and role; a chain is put and released whole, and every such step is journalled, so that a scheduler may
try something and undo it.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from muster.cluster.resources import RESOURCE_COUNT
from muster.cluster.structured import Structured, layout_of

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = NDArray[Any]
"""A structured array, whose fields its dtype names and NumPy's types do not know."""

MICRO = 1_000_000
WHOLE = 1000
"""Thousandths of a GPU in a whole one."""

GPU, CPU, MEMORY, STORAGE = 0, 1, 2, 3
"""The columns of the resources that come with Muster; further ones follow in the order of `RESOURCES`."""

WORKER, SERVER = 0, 1
ROLES = ("worker", "server")

NONE = -1

PACKED = 1 << 20
"""Groups from here on hold jobs that run on the same GPUs at the same time, instead of in turns."""

NODE = layout_of(
    ("capacity", np.int64, (RESOURCE_COUNT,)),
    ("free", np.int64, (RESOURCE_COUNT,)),
    ("releasing", np.int64, (RESOURCE_COUNT,)),
    ("unavailable", np.int64, (RESOURCE_COUNT,)),
    ("share", np.int64, (RESOURCE_COUNT,)),  # the GPU-proportional share of one GPU
    ("gpus", np.int64),
    ("free_gpus", np.int64),  # GPUs of which no job holds any part
    ("free_mask", np.int64),
    ("island", np.int64),  # GPUs an NVLink island
    ("rack", np.int64),
    ("gpu_type", np.int64),  # its number among the cluster's
    ("up", np.int64),
)
NodeArray: TypeAlias = Structured[
    Literal[
        "capacity",
        "free",
        "releasing",
        "unavailable",
        "share",
        "gpus",
        "free_gpus",
        "free_mask",
        "island",
        "rack",
        "gpu_type",
        "up",
    ]
]
DEVICE = layout_of(
    ("free_milli", np.int64),
    ("holders", np.int64),
    ("group", np.int64),
    ("busy", np.float64),  # GPUs that the jobs packed on it would keep busy (`speed.rates.note_busy`)
)
DeviceArray: TypeAlias = Structured[Literal["free_milli", "holders", "group", "busy"]]
ROW = layout_of(
    ("job", np.int64),
    ("node", np.int64),
    ("mask", np.int64),
    ("milli", np.int64),  # thousandths of each GPU in the mask
    ("amount", np.int64, (RESOURCE_COUNT,)),
    ("role", np.int64),
    (
        "group",
        np.int64,
    ),  # of jobs on the same GPUs, in turns or packed; NONE if the GPUs are the job's own
    ("next", np.int64),
    ("since", np.float64),
)
RowArray: TypeAlias = Structured[
    Literal["job", "node", "mask", "milli", "amount", "role", "group", "next", "since"]
]
ENTRY = layout_of(("kind", np.int64), ("job", np.int64), ("chain", np.int64))
JournalArray: TypeAlias = Structured[Literal["kind", "job", "chain"]]

PUT, RELEASE = 0, 1
FREE_ROW, ROWS_USED, ENTRIES, DELAYED, EVEN_GANGS = (RESOURCE_COUNT + place for place in range(5))
"""Places in `totals` after the resources: head of the list of free rows, rows ever used, length of
the journal, whether what is released stays `releasing` until the world says otherwise, and whether a job has the
same amounts on each of its nodes."""

UNFIT_NODE, UNFIT_GPU, UNFIT_AMOUNT, UNFIT_EVEN = -2, -3, -4, -5


class Books(NamedTuple):
    """All arrays of a ledger, as compiled code takes them."""

    nodes: NodeArray
    devices: DeviceArray
    rows: RowArray
    heads: Ints
    totals: Ints
    journal: JournalArray
