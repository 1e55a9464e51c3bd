"""A job whose loader has four workers and 32 batches ahead, each of 0.2 s of CPU time; a step takes as long."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils.data import DataLoader

from muster import training

PREPARE_CPU_SECONDS, STEP_SECONDS, WORKERS, AHEAD = 0.2, 0.2, 4, 8


class Samples:
    """Of an epoch that does not end."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        end = time.thread_time() + PREPARE_CPU_SECONDS
        while time.thread_time() < end:
            pass
        return torch.zeros(1)


def main() -> None:
    """Steps that the GPU would do."""
    samples: Any = Samples()
    loader: DataLoader[Any] = DataLoader(samples, batch_size=1, num_workers=WORKERS, prefetch_factor=AHEAD)
    for _ in training.join().steps(loader, state={}, epochs=1):
        time.sleep(STEP_SECONDS)


if __name__ == "__main__":
    main()
