"""The job of `shared_job` on any number of ranks, which exchange something at every step; `fails`: rank 1 does."""

from __future__ import annotations

import os
import sys

from muster import training
from tests.profiling.shared_job import FIXED_CPU_SECONDS, SAMPLE_CPU_SECONDS, Batches, use_cpu

EXCHANGE_CPU_SECONDS = 0.005


def main() -> None:
    import torch

    torch.distributed.init_process_group("gloo")
    if "fails" in sys.argv and os.environ["RANK"] == "1":
        raise SystemExit("no second one")
    run = training.join()
    for part in run.steps(Batches(), state={}, epochs=1000, elastic=True):
        use_cpu(FIXED_CPU_SECONDS + len(part) * SAMPLE_CPU_SECONDS)
        torch.distributed.all_reduce(torch.ones(1))
        use_cpu(EXCHANGE_CPU_SECONDS)


if __name__ == "__main__":
    main()
