"""Stored samples: files as they are, from a store of limited bandwidth that all workers share."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

BURST_SECONDS = 0.01
"""That a reader who overslept may catch up."""


class Store:
    """Sample i is file i modulo the number of files; files that were just made come from memory, so it is slowed."""

    def __init__(self, folder: Path, samples: int, mb_per_s: float) -> None:
        self._files = sorted(folder.iterdir(), key=lambda path: int(path.name))
        self._samples = samples
        self._bytes_per_s = 1e6 * mb_per_s
        self._free_at = multiprocessing.Value("d", 0.0)
        """When the store has delivered all that was asked for."""

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> bytes:
        content = self._files[index % len(self._files)].read_bytes()
        with self._free_at.get_lock():
            begin = max(self._free_at.value, time.monotonic() - BURST_SECONDS)
            self._free_at.value = due = begin + len(content) / self._bytes_per_s
        time.sleep(max(0.0, due - time.monotonic()))
        return content
