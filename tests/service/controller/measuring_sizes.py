"""A scheduler that runs a job on 1, 2 and 4 GPUs in turn, and writes down what it may know of its speeds.

The file of the environment variable `SEEN` has a line for each decision in which anything is known.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from muster.schedulers.contract import Decision, Snapshot
from tests.service.controller.cycling_sizes import CyclingSizes

ASKED_ABOUT = (1, 2, 3, 4)


class MeasuringSizes(CyclingSizes):
    """For one job at a time."""

    name = "measuring-sizes"
    sizes = (1, 2, 4)
    steps = 15

    def decide(self, snapshot: Snapshot, state: Any) -> tuple[Decision, Any]:
        if snapshot.size_speeds is not None and len(snapshot.jobs.index):
            gpus = np.array(ASKED_ABOUT)
            job = np.repeat(snapshot.jobs.index[:1], len(gpus))
            seconds = snapshot.size_speeds.seconds_per_iteration(job, gpus, np.ones_like(gpus), "")
            with Path(os.environ["SEEN"]).open("a") as file:
                print(*seconds.tolist(), file=file)
        return super().decide(snapshot, state)
