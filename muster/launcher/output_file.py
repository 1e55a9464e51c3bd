"""What a job has printed, kept to a size: the oldest part gives its room on the disk back while the job prints on.

The file keeps its length, so that readers go on where they were: what was dropped is a hole in it. Where the
file system makes no holes the whole file is emptied instead. Standard library only, for the process beside each start.
"""

from __future__ import annotations

import ctypes
import os

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_BLOCK_BYTES = 512
"""Of `st_blocks`."""


def keep_newest(output: int, most: float) -> None:
    """Drop the oldest part of a file that occupies more than `most` bytes; half of them are left. OSError: not now."""
    there = os.fstat(output)
    if there.st_blocks * _BLOCK_BYTES <= most or there.st_nlink > 1:
        return
    library = ctypes.CDLL(None, use_errno=True)
    dropped = ctypes.c_int64(max(there.st_size - int(most // 2), 0))
    if library.fallocate(output, _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_int64(0), dropped) != 0:
        os.ftruncate(output, 0)
