"""Data sets whose reads can be counted or cost what a real store would."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
import zlib
from collections import Counter

import numpy as np

BURST_SECONDS = 0.005


class CountedStore:
    """Samples of whole pages when pickled; counts what was read in this process."""

    def __init__(self, samples: int, sample_bytes: int = 8000) -> None:
        self.samples, self.sample_bytes = samples, sample_bytes
        self.read: Counter[int] = Counter()

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> bytes:
        self.read[index] += 1
        return index.to_bytes(4, "little") * (self.sample_bytes // 4)


class ThrottledStore:
    """A store of so many bytes a second for all processes together, as one disk is."""

    def __init__(self, samples: int, sample_bytes: int) -> None:
        self.samples, self.sample_bytes = samples, sample_bytes
        self._file = os.memfd_create("store")
        os.ftruncate(self._file, 16)
        self._shared = mmap.mmap(self._file, 16)
        self.set_speed(float("inf"))

    def set_speed(self, bytes_per_s: float) -> None:
        """For all processes, from now on."""
        self._shared[:] = struct.pack("dd", 0.0, bytes_per_s)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> bytes:
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        free, bytes_per_s = struct.unpack("dd", self._shared[:])
        # Oversleeping is made up for, up to the burst.
        free = max(free, time.monotonic() - BURST_SECONDS) + self.sample_bytes / bytes_per_s
        self._shared[:8] = struct.pack("d", free)
        fcntl.lockf(self._file, fcntl.LOCK_UN)
        time.sleep(max(0.0, free - time.monotonic()))
        return index.to_bytes(4, "little") * (self.sample_bytes // 4)


class Images:
    """Compressed images with their class, as bytes; deterministic."""

    def __init__(self, samples: int, side: int = 48) -> None:
        rng = np.random.default_rng(3)
        coarse = rng.integers(0, 255, (samples, side // 8, side // 8, 3), dtype=np.uint8)
        pixels = coarse.repeat(8, axis=1).repeat(8, axis=2)
        self.side = side
        self.packed = [(zlib.compress(image.tobytes()), int(image[0, 0, 0]) % 4) for image in pixels]

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> tuple[bytes, int]:
        return self.packed[index]
