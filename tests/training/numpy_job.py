"""A job without PyTorch: a linear model by momentum, with noise from all generators; prints a line a step.

--die-in-save STEP   kills itself with SIGKILL while that step's checkpoint is being written
--gated              waits for a line on its input before it ends a step
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
from typing import Any

import numpy as np

from muster import training

STEPS_AN_EPOCH, EPOCHS = 7, 3


class Deadly:
    """Part of a state whose writing ends the process."""

    def __getstate__(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Model:
    def __init__(self) -> None:
        self.weights, self.momentum = np.zeros(2000), np.zeros(2000)
        self.loss, self.deadly_save = 0.0, -1
        self.steps = 0

    def learn(self, batch: np.ndarray) -> None:
        noise = np.random.normal(size=2000) * random.random()
        error = self.weights - batch - 0.1 * noise
        self.loss = float(error @ error)
        self.momentum = 0.9 * self.momentum + error
        self.weights = self.weights - 0.05 * self.momentum
        self.steps += 1

    def state_dict(self) -> dict[str, Any]:
        state = dict(vars(self))
        del state["deadly_save"]
        return {**state, "then": Deadly()} if self.steps == self.deadly_save else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--die-in-save", type=int, default=-1)
    parser.add_argument("--gated", action="store_true")
    chosen = parser.parse_args()
    run = training.join(seed=5)
    np.random.seed(1)
    random.seed(1)
    batches = [np.full(2000, float(number)) for number in range(STEPS_AN_EPOCH)]
    model = Model()
    seen: dict[str, list[tuple[int, int, bool]]] = {"batches": []}
    model.deadly_save = chosen.die_in_save
    for batch in run.steps(batches, state={"model": model, "seen": seen}, epochs=EPOCHS):
        model.learn(batch)
        seen["batches"].append((run.epoch, int(batch[0]), run.ends_epoch))
        print(run.step, flush=True)
        if chosen.gated:
            sys.stdin.readline()
    whole = [(epoch, number, number == 6) for epoch in range(EPOCHS) for number in range(STEPS_AN_EPOCH)]
    assert seen["batches"] == whole
    print(model.loss.hex(), float(model.weights.sum()).hex())


if __name__ == "__main__":
    main()
