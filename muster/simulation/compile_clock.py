"""How much of a run went into compiling kernels, which happens once after an installation."""

from __future__ import annotations

import time

from numba.core.event import Event, Listener


class CompileClock(Listener):
    """Adds up the CPU seconds between the start and the end of Numba's compilations, which may be nested."""

    def __init__(self) -> None:
        self.cpu_seconds = 0.0
        self._depth = 0
        self._began = 0.0

    def on_start(self, event: Event) -> None:
        """A function is being compiled."""
        if self._depth == 0:
            self._began = time.process_time()
        self._depth += 1

    def on_end(self, event: Event) -> None:
        """It is."""
        self._depth -= 1
        if self._depth == 0:
            self.cpu_seconds += time.process_time() - self._began
