"""A job that keeps a journal of its steps beside its output, and in its state by which starts they were made.

    journal_job.py STEPS FOLDER

Each process appends a line for each step to a file of its own: the step and the time. The last line of output has the
final loss and how many of the steps that count each start has made.
"""

from __future__ import annotations

import os
import sys
import time
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from muster import training
from muster.training.environment import read_environment

STEP_SECONDS = 0.05
SAVE_SECONDS = 0.2


class Slow:
    """Part of a state that takes its time to be written."""

    def __getstate__(self) -> dict[str, int]:
        time.sleep(SAVE_SECONDS)
        return {"taken": 1}


def main(steps: int, folder: Path) -> None:
    run = training.join(seed=1)
    epoch = read_environment().epoch
    true = np.arange(8.0)
    model: dict[str, Any] = {"weights": np.zeros(8), "loss": np.inf, "epochs": [], "slow": Slow()}
    np.random.seed(1)
    with (folder / f"{os.environ['MUSTER_JOB_ID']}.{epoch}.{os.getpid()}").open("a") as journal:
        for _ in run.steps(list(range(steps)), state={"model": model}):
            points = np.random.normal(size=(16, 8))
            errors = points @ (model["weights"] - true) + np.random.normal(size=16)
            model["weights"] = model["weights"] - 0.02 * points.T @ errors
            model["loss"] = float(np.mean(errors**2))
            model["epochs"] = [*model["epochs"], epoch]
            print(run.step, time.time(), file=journal, flush=True)
            time.sleep(STEP_SECONDS)
    made = [f"{number}:{len(list(of))}" for number, of in groupby(model["epochs"])]
    print("final loss", float(model["loss"]).hex(), *made)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
