"""Messages while kernels are compiled: the first after 2 s, then one every 15 s."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

_FIRST_SECONDS, _NEXT_SECONDS = 2.0, 15.0


def _print_to_stderr(text: str) -> None:
    print(f"muster: {text}", file=sys.stderr, flush=True)


_announce: Callable[[str], None] = _print_to_stderr


def announce_with(announce: Callable[[str], None]) -> None:
    """Send the messages of this process to `announce` instead of stderr."""
    global _announce
    _announce = announce


def announce(text: str) -> None:
    """Send one message."""
    _announce(text)


class CompileProgress:
    """Counts the kernels and the seconds that this process spends compiling, and announces them.

    `may_announce` is asked before each message; it is true in one process of a command.
    """

    def __init__(self, may_announce: Callable[[], bool]) -> None:
        self._may_announce = may_announce
        self._kernels = 0
        self._seconds = 0.0
        self._depth = 0
        self._began = 0.0
        self._due = _FIRST_SECONDS
        self._timer: threading.Timer | None = None

    def announce(self, text: str) -> None:
        """Send a message, if this process speaks for its command."""
        if self._may_announce():
            announce(text)

    def begin(self) -> None:
        """A kernel starts to compile, maybe inside another one."""
        self._depth += 1
        if self._depth == 1:
            self._began = time.monotonic()
            self._start_timer()

    def end(self) -> None:
        """The kernel that began last is compiled, or cannot be."""
        self._kernels += 1
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.monotonic() - self._began
            if self._timer is not None:
                self._timer.cancel()

    def _start_timer(self) -> None:
        self._timer = threading.Timer(max(self._due - self._elapsed(), 0.0), self._report)
        self._timer.daemon = True
        self._timer.start()

    def _elapsed(self) -> float:
        return self._seconds + (time.monotonic() - self._began if self._depth else 0.0)

    def _report(self) -> None:
        if not self._depth:  # finished just now
            return
        first = self._due == _FIRST_SECONDS
        self._due = self._elapsed() + _NEXT_SECONDS
        if first:
            self.announce("compiling, once after installation; this can take a minute")
        else:
            self.announce(f"still compiling: {self._kernels} functions in {self._elapsed():.0f} s")
        self._start_timer()
