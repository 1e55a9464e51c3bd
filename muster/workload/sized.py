"""Jobs whose workers and parameter servers a scheduler counts: what each needs and is worth, as columns (SMD)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from muster.cluster.structured import Structured, zero_records

RIGID, PS, RING = 0, 1, 2
SYNCS = ("", "ps", "ring")
"""By `asked.sync`, as the trace says it."""

RESOURCES = ("gpu", "cpu", "memory_gb", "nic_gb_per_s")
"""What a worker and a server need: the ledger's first three, and bandwidth of a server's machine's network card."""

MOST_TERMS = 8
"""Of a layered step (`speed.parameter_server`); the architectures known by name have up to 5."""

SIZED = np.dtype(
    [
        ("worker", np.float64, (4,)),  # of one worker, by RESOURCES
        ("server", np.float64, (4,)),  # of one server; a ring has none
        ("ring", np.int64),  # which line of `JobTable.ring_seconds`; 0: it has servers
        ("limit", np.float64, (4,)),  # of all together, as the owner says; inf: nothing said
        ("min_workers", np.int64),
        ("max_workers", np.int64),
        ("servers", np.int64),  # at most; 0 for a ring
        ("batch", np.float64),  # samples an iteration, over all workers
        ("priority", np.float64),  # g1 of SMD's utility; NaN: the owner says none
        ("urgency", np.float64),  # g2, a second
        ("target", np.float64),  # g3, seconds
        ("loss", np.float64, (3,)),  # slope, offset and floor of its loss curve
        ("target_loss", np.float64),  # 0: its work is not given by a loss
    ]
)
SizedArray: TypeAlias = Structured[
    Literal[
        "worker",
        "server",
        "ring",
        "limit",
        "min_workers",
        "max_workers",
        "servers",
        "batch",
        "priority",
        "urgency",
        "target",
        "loss",
        "target_loss",
    ]
]


def sized_columns(jobs: pl.DataFrame) -> SizedArray:
    """One `SIZED` record a job; those of rigid jobs stay 0 but for the utility."""
    sized: SizedArray = zero_records(len(jobs), SIZED)
    ring = jobs["sync"].to_numpy() == "ring"
    for at, name in enumerate(("gpus", "cpus", "memory_gb")):
        sized["worker"][:, at] = jobs[f"worker_{name}"].fill_null(0).to_numpy()
        if at:
            sized["server"][:, at] = jobs[f"server_{name}"].fill_null(0).to_numpy()
            sized["limit"][:, at] = jobs[name].fill_null(np.inf).to_numpy()
    sized["server"][:, 3] = jobs["nic_gb_per_s"].fill_null(0).to_numpy()
    sized["server"][ring] = 0
    sized["limit"][:, [0, 3]] = np.inf
    workers = (jobs["gpus"] // jobs["worker_gpus"]).fill_null(0)
    sized["min_workers"] = jobs["min_workers"].fill_null(1).to_numpy()
    sized["max_workers"] = jobs["max_workers"].fill_null(workers).to_numpy()
    sized["servers"] = np.where(ring, 0, jobs["servers"].fill_null(0).to_numpy())
    sized["batch"] = jobs["batch"].fill_null(0).to_numpy()
    sized["priority"] = jobs["utility_priority"].fill_null(np.nan).to_numpy()
    sized["urgency"] = jobs["utility_urgency_per_hour"].to_numpy() / 3600.0
    sized["target"] = jobs["utility_target_seconds"].fill_null(np.nan).to_numpy()
    for at, name in enumerate(("loss_slope", "loss_offset", "loss_floor")):
        sized["loss"][:, at] = jobs[name].fill_null(0).to_numpy()
    sized["target_loss"] = jobs["target_loss"].fill_null(0).to_numpy()
    return sized
