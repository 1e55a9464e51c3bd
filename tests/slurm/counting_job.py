"""A job of one or several processes that trains 200 steps; prints the sum that it has learnt.

Its first start under Muster takes half a second a step, so that it can be stopped in the middle.
"""

from __future__ import annotations

import os
import random
import sys
import time

from muster import training
from muster.training.environment import read_environment

STEPS = 200


def main() -> None:
    is_gang = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if is_gang:
        import torch

        torch.distributed.init_process_group("gloo")
    pause_seconds = 0.5 if read_environment().epoch == 1 else 0.0
    run = training.join(seed=3)
    random.seed(3)
    learnt = {"sum": 0.0}
    for batch in run.steps(list(range(STEPS)), state={"learnt": learnt}):
        learnt["sum"] += batch * random.random()
        time.sleep(pause_seconds)
    if is_gang:
        torch.distributed.destroy_process_group()
    print("learnt", learnt["sum"].hex(), file=sys.stdout)


if __name__ == "__main__":
    main()
