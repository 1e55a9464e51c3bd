"""A small training job with a store of a fixed speed: `job.py DIARY STEPS STEP_SECONDS START_UP_SECONDS [script]`.

A step reads a batch from the store (it takes its time), then learns from it (on the CPU). The diary gets a line for
each step's begin and end, so that the solo rate and the cost of starts can be read from it. A `script` knows nothing
of Muster: it saves nothing and begins from scratch.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from muster import training

READ_SHARE = 0.8
"""Of a step's seconds; the rest is for computing."""


def main(diary: Path, steps: int, step_seconds: float, start_up_seconds: float, *, script: bool) -> None:
    """Logistic regression by momentum."""
    time.sleep(start_up_seconds)
    model = {"weights": np.zeros(2000), "momentum": np.zeros(2000)}
    batches = list(range(steps))
    with diary.open("a") as pages:
        for batch in batches if script else training.join(seed=1).steps(batches, state={"model": model}):
            began = time.time()
            time.sleep(READ_SHARE * step_seconds)
            samples = np.random.default_rng(batch).normal(size=(64, 2000))
            gradient = gradient_of(samples, model["weights"], batch % 2)
            while time.time() < began + step_seconds:
                gradient = gradient_of(samples, model["weights"], batch % 2)
            model["momentum"] = 0.9 * model["momentum"] + gradient / 64
            model["weights"] = model["weights"] - 0.1 * model["momentum"]
            pages.write(f"{began} {time.time()}\n")
            pages.flush()


def gradient_of(samples: np.ndarray, weights: np.ndarray, label: int) -> np.ndarray:
    """Of the logistic loss, all samples being of one class."""
    gradient: np.ndarray = samples.T @ (1 / (1 + np.exp(-samples @ weights)) - label)
    return gradient


if __name__ == "__main__":
    steps, step_seconds, start_up_seconds = int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
    main(Path(sys.argv[1]), steps, step_seconds, start_up_seconds, script="script" in sys.argv[5:])
