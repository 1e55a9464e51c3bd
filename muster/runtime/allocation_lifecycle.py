"""What a run writes down of its jobs' lives, as records that compiled code (`lifecycle`) fills."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from muster.cluster.ledger_arrays import Ints
from muster.cluster.resources import RESOURCE_COUNT
from muster.cluster.structured import Structured, layout_of

HELD = np.dtype(
    [
        ("mask", np.int64),
        ("from", np.float64),
        ("to", np.float64),
        ("job", np.int32),
        ("node", np.int32),
        ("group", np.int32),
        ("milli", np.int16),
        ("role", np.int16),
        (
            "amount",
            np.int64,
            (RESOURCE_COUNT,),
        ),  # the last, so that it takes no more room than there are resources
    ]
)
HeldArray: TypeAlias = Structured[
    Literal["mask", "from", "to", "job", "node", "group", "milli", "role", "amount"]
]
"""A stretch of time in which a job held something on a node. Large runs have millions: it is as narrow as can be."""

PENDING_INTERVAL = layout_of(
    ("a", np.float64),
    ("b", np.float64),
    ("from", np.float64),
    ("to", np.float64),
    ("job", np.int32),
    ("code", np.int32),
)
PendingArray: TypeAlias = Structured[Literal["a", "b", "from", "to", "job", "code"]]
"""A stretch of time in which a job waited for one reason."""

RESTART_MODEL = layout_of(
    ("resize_restarts", np.int64),  # whether a change of CPU, memory or storage alone restarts a job
    ("whole_round", np.float64),  # seconds of a round that executes whole iterations only; 0: continuous
    ("checkpoint_every", np.float64),  # productive seconds between checkpoints
    ("end_at_limit", np.int64),  # whether a job is ended when its time limit is over
)
RestartModel: TypeAlias = Structured[
    Literal["resize_restarts", "whole_round", "checkpoint_every", "end_at_limit"]
]
"""How a world charges restarts, counts progress and ends jobs; an array of one record."""

STARTED, STOPPED, CHANGED, HELD_ROWS, RELEASES, IN_TURNS = 0, 1, 2, 3, 4, 5
"""Places in `LifecycleReport.counts`."""


class LifecycleReport(NamedTuple):
    """What the functions that start and stop jobs report; each has room for all that is held when they begin."""

    held: HeldArray
    """The allocation intervals that end, as HELD."""
    releases: Ints
    """The chains whose resources stay unavailable for a while."""
    counts: Ints
    """Jobs started, stopped and changed, entries used of the two above, and whether jobs take turns on GPUs."""
