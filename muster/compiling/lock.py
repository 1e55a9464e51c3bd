"""Locks among the processes that compile into one cache folder, a lock for each kernel.

The locks only save work. Without them two processes may compile the same kernel, and both results are good; so a lock
that cannot be taken (read-only folder, planted file, no support by the file system) is left out, and one that another
process holds for too long is no longer waited for.
"""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from muster.files import open_lock_file

LOCK_FILE = ".compiling.lock"
"""Each lock is one byte of this file, which stays empty."""
_QUIET_SECONDS, _LIMIT_SECONDS = 2.0, 120.0
_POLL_SECONDS = 0.02


class CompileLocks:
    """The locks of one cache folder, as one process takes them; they end with the process.

    Without a folder every lock is free.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._file: int | None = None
        if folder is not None:
            # A POSIX lock is lost when its process closes any descriptor of the file, so this one stays open.
            with suppress(OSError):
                self._file = open_lock_file(folder / LOCK_FILE)
        self._waits, self._announced = True, False

    def take(self, name: str, announce: Callable[[str], None]) -> None:
        """Take the lock of this name; waits for another process, with one message after 2 s, at most 120 s."""
        began = time.monotonic()
        while not self.take_if_free(name) and self._waits:
            waited = time.monotonic() - began
            if waited > _QUIET_SECONDS and not self._announced:
                self._announced = True
                announce(f"waiting for another process that compiles into {self._folder}")
            if waited > _LIMIT_SECONDS:
                announce(f"no longer waiting: compiling as well, after {waited:.0f} s")
                self._waits = False
            time.sleep(_POLL_SECONDS)

    def take_if_free(self, name: str) -> bool:
        """Take the lock of this name unless another process holds it; True as well where there is no lock file."""
        if self._file is None:
            return True
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte_of(name))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # no support, or no memory for locks
            self._file = None
        return True

    def release(self, name: str) -> None:
        """Let another process have it."""
        if self._file is not None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte_of(name))


def _byte_of(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
