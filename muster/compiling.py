"""Compiled kernels: Numba's `njit`, safe among processes that share its cache on disk.

Two processes that compile different signatures of one function at the same moment may each write the other's
file, and the next one loads the wrong code. Whoever loads or compiles a kernel here holds a lock meanwhile; the
second process then finds the first one's work done.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from pathlib import Path

from numba import njit
from numba.core.compiler_lock import global_compiler_lock

__all__ = ["njit"]


class _AmongProcesses:
    """Numba's compiler lock for the threads of this process, and with it a lock file of this user for all others.

    It stands in the place of the lock inside Numba's own. Numba's events would tell of the lock too, but other
    listeners, which come and go with every thread that compiles, may keep one from hearing the end.
    """

    def __init__(self) -> None:
        self._threads = threading.RLock()
        self._depth = 0
        self._file = -1

    def acquire(self) -> None:
        """A kernel is about to be loaded or compiled."""
        self._threads.acquire()
        if self._depth == 0:
            path = Path(tempfile.gettempdir()) / f"muster-compiling-{os.getuid()}.lock"
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._depth += 1

    def release(self) -> None:
        """It is there."""
        self._depth -= 1
        if self._depth == 0:
            os.close(self._file)
        self._threads.release()

    def _is_owned(self) -> bool:
        """Whether this thread has it; Numba asks."""
        owned: bool = self._threads._is_owned()  # type: ignore[attr-defined]
        return owned


global_compiler_lock._lock = _AmongProcesses()  # type: ignore[assignment]
