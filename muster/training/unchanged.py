"""Jobs that cannot be changed: asked to save by a signal, their progress read from their output."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from muster.problems import InputError, Problem
from muster.training.run_folder import ordinary_file

Search = Callable[[str, str], Any]
"""Finds an expression in a line; what it finds has the group `step`, None: it is not there."""

STOP_SIGNALS = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP")
_MOST_BYTES = 1_000_000
"""Of new output that are read at once: the last ones."""
_MOST_DIGITS = 15
"""Of a step."""


@dataclass(frozen=True)
class UnchangedJob:
    """How to talk to a job that knows nothing of Muster and makes its own checkpoints."""

    stop_signal: str = "SIGTERM"
    """What makes it save and end."""
    progress: str | None = None
    r"""A regular expression with a group `step`, for a line of its output: `step (?P<step>\d+)/`."""

    def __post_init__(self) -> None:
        problems = []
        if self.stop_signal not in STOP_SIGNALS:
            what = f"allowed: one of {', '.join(STOP_SIGNALS)}"
            problems.append(Problem("job", what, column="stop_signal", found=self.stop_signal))
        if self.progress is not None:
            what = r"allowed: a regular expression with a group named step, such as 'step (?P<step>\d+)'"
            try:
                wrong = "step" not in re.compile(self.progress).groupindex
            except re.error as error:
                wrong, what = True, f"{what}: {error}"
            if wrong:
                problems.append(Problem("job", what, column="progress", found=self.progress))
        if problems:
            raise InputError(*problems)

    def ask_to_stop(self, process_group: int) -> bool:
        """Signals every process of the job; False if none is left. Grace and SIGKILL are the caller's."""
        try:
            os.killpg(process_group, signal.Signals[self.stop_signal])
        except ProcessLookupError:
            return False
        return True

    def read_progress(
        self, output: Path, offset: int = 0, search: Search = re.search, seconds: float = inf
    ) -> tuple[int | None, int]:
        """The last step reported in whole lines from `offset` (bytes) on, and the offset to read from next.

        A progress bar's carriage returns end a line too. The last step is all that counts, so it is searched for from
        the end on, in the last megabyte, for so many seconds; what was passed over is not read again. For an
        expression that is not trusted, pass a `search` that ends in bounded time.
        """
        if self.progress is None:
            return None, offset
        with ordinary_file(output) as file:
            size = os.fstat(file).st_size
            if size < offset:  # Somebody has emptied it.
                offset = 0
            begin = max(offset, size - _MOST_BYTES)
            fresh = os.pread(file, size - begin, begin)
        end = max(fresh.rfind(b"\n"), fresh.rfind(b"\r")) + 1
        if not end:
            return None, offset
        lines = re.split(r"[\r\n]+", fresh[:end].decode(errors="replace"))
        whole = lines if begin == offset else lines[1:]
        give_up = time.monotonic() + seconds
        for line in reversed(whole):
            found = search(self.progress, line)
            step = _step(found["step"]) if found else None
            if step is not None or time.monotonic() >= give_up:
                return step, begin + end
        return None, begin + end


def _step(text: str | None) -> int | None:
    """A group may be there without having matched, or have matched anything."""
    if text is None or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        return None
    return int(text)
