"""A job of one process that fits a line by stochastic gradient descent for some seconds; prints its final loss.

    regression_job.py STEPS

Plain Python: sums of NumPy may differ in the last bit by where an array lies in memory.
"""

from __future__ import annotations

import random
import sys
import time

from muster import training

STEP_SECONDS = 0.05
SLOPE, OFFSET = 3.0, -1.0


def main(steps: int) -> None:
    run = training.join(seed=1)
    random.seed(1)
    model = {"slope": 0.0, "offset": 0.0, "loss": 0.0}
    for _ in run.steps(list(range(steps)), state={"model": model}):
        x = random.gauss(0.0, 1.0)
        error = (model["slope"] - SLOPE) * x + model["offset"] - OFFSET + random.gauss(0.0, 0.1)
        model["slope"] -= 0.05 * error * x
        model["offset"] -= 0.05 * error
        model["loss"] = 0.9 * model["loss"] + 0.1 * error**2
        time.sleep(STEP_SECONDS)
    print("final loss", model["loss"].hex())


if __name__ == "__main__":
    main(int(sys.argv[1]))
