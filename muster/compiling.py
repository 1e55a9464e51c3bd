"""Compiled kernels: Numba's `njit`, safe among processes that share its cache on disk.

Two processes that compile different signatures of one function at the same moment may each write the other's
file, and the next one loads the wrong code. Whoever loads or compiles a kernel here holds a lock meanwhile; the
second process then finds the first one's work done.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from numba import njit
from numba.core.event import Event, Listener, register

__all__ = ["njit"]


class _OneAtATime(Listener):
    """Holds a lock file of this user from the outermost start of Numba's compiler lock to its end."""

    def __init__(self) -> None:
        self._depth = 0
        self._file = -1

    def on_start(self, event: Event) -> None:
        """A kernel is about to be loaded or compiled."""
        if self._depth == 0:
            path = Path(tempfile.gettempdir()) / f"muster-compiling-{os.getuid()}.lock"
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._depth += 1

    def on_end(self, event: Event) -> None:
        """It is there."""
        self._depth -= 1
        if self._depth == 0:
            os.close(self._file)


register("numba:compiler_lock", _OneAtATime())  # type: ignore[no-untyped-call]
