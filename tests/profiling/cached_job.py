"""A job of 8 batches of 8 cached samples an epoch, each batch some milliseconds of CPU time."""

from __future__ import annotations

import sys
import time

from muster import training

STEP_CPU_SECONDS, READ_CPU_SECONDS = 0.02, 0.002
SAMPLES, SAMPLE_BYTES, BATCH = 64, 8000, 8


class Store:
    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> bytes:
        """Decodes, so to speak: a sample takes CPU unless it is cached."""
        end = time.thread_time() + READ_CPU_SECONDS
        while time.thread_time() < end:
            pass
        return index.to_bytes(4, "little") * (SAMPLE_BYTES // 4)


class Batches:
    def __init__(self, data: training.CachedDataset) -> None:
        self.data = data

    def __len__(self) -> int:
        return SAMPLES // BATCH

    def __getitem__(self, number: int) -> list[bytes]:
        return [self.data[index] for index in range(number * BATCH, (number + 1) * BATCH)]


def main(epochs: int) -> None:
    run = training.join()
    for _ in run.steps(Batches(training.CachedDataset(Store())), state={}, epochs=epochs):
        end = time.process_time() + STEP_CPU_SECONDS
        while time.process_time() < end:
            pass


if __name__ == "__main__":
    main(int(sys.argv[1]))
