"""How long the processes of a start may live unless their node is heard of again.

A node that has lost its cluster cannot know whether its starts were given up and begun elsewhere. So each of its
supervisors reads a file with the moment until which it may go on. Who writes it (an agent that still reaches the
cluster's head) puts that moment off; nothing begins the same jobs elsewhere before it.

The file holds two moments of the clock that counts from the machine's boot and never stops: when the ranks are to save
and end, and when they are killed.
"""

from __future__ import annotations

import os
import time
from math import inf
from pathlib import Path

_BYTES = 64
"""Of the file, whatever the moments."""


def now() -> float:
    """Seconds since the boot of this machine, those in which it slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def write_lease(path: Path, ending: float, over: float) -> None:
    """Put off both moments; on a full disk in the room that the file has. OSError if the disk cannot take it."""
    text = f"{ending} {over}".ljust(_BYTES)
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        aside.write_text(text)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        # Moments only grow. A reader that comes in between sees one too late, until its next look.
        with path.open("r+") as file:
            file.write(text)


class Lease:
    """What one supervisor knows of its lease."""

    def __init__(self, path: str | None) -> None:
        """`path`: of the file; None: no lease is needed."""
        self._path = path
        self._known = (inf, inf) if path is None else (0.0, 0.0)

    @property
    def is_ending(self) -> bool:
        """Whether the ranks are to save and end."""
        return now() >= self._read()[0]

    @property
    def is_over(self) -> bool:
        """Whether no process may live any more."""
        return now() >= self._read()[1]

    def _read(self) -> tuple[float, float]:
        """Read the file; where it cannot be read now, what it said last."""
        if self._path is not None:
            try:
                ending, over = Path(self._path).read_text().split()
                self._known = float(ending), float(over)
            except (OSError, ValueError):
                pass
        return self._known
