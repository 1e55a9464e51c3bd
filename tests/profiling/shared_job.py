"""A job whose step takes a fixed CPU time and one for each sample; `shared_job.py [elastic] [fails-below N]`.

Preparing a batch takes longer than any step, so that a profile would see it.
"""

from __future__ import annotations

import sys
import time

from muster import training

BATCH, FIXED_CPU_SECONDS, SAMPLE_CPU_SECONDS = 48, 0.02, 0.001
PREPARE_CPU_SECONDS = 0.1


class Batches:
    def __len__(self) -> int:
        return 1000

    def __getitem__(self, number: int) -> list[int]:
        use_cpu(PREPARE_CPU_SECONDS)
        return [number] * BATCH


def use_cpu(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def main(elastic: bool, fewest: int) -> None:
    run = training.join()
    for part in run.steps(Batches(), state={}, epochs=1000, elastic=elastic):
        if len(part) < fewest:
            raise SystemExit("too few samples for its norm")
        use_cpu(FIXED_CPU_SECONDS + len(part) * SAMPLE_CPU_SECONDS)


if __name__ == "__main__":
    main("elastic" in sys.argv, int(sys.argv[-1]) if "fails-below" in sys.argv else 0)
