"""Jobs that cannot be changed: asked to save by a signal, their progress read from their output."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.problems import BadInput, Problem

Search = Callable[[str, str], Any]
"""Finds an expression in a line; what it finds has the group `step`, None: it is not there."""

STOP_SIGNALS = ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP")


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
            what = f"one of {', '.join(STOP_SIGNALS)} is needed"
            problems.append(Problem("job", what, column="stop_signal", found=self.stop_signal))
        if self.progress is not None:
            what = r"a regular expression with a group named step, such as 'step (?P<step>\d+)', is needed"
            try:
                wrong = "step" not in re.compile(self.progress).groupindex
            except re.error as error:
                wrong, what = True, f"{what}: {error}"
            if wrong:
                problems.append(Problem("job", what, column="progress", found=self.progress))
        if problems:
            raise BadInput(*problems)

    def ask_to_stop(self, process_group: int) -> bool:
        """Signals every process of the job; False if none is left. Grace and SIGKILL are the caller's."""
        try:
            os.killpg(process_group, signal.Signals[self.stop_signal])
        except ProcessLookupError:
            return False
        return True

    def read_progress(
        self, output: Path, offset: int = 0, search: Search = re.search
    ) -> tuple[int | None, int]:
        """The last step told in whole lines from `offset` (bytes) on, and the offset to read from next.

        A progress bar's carriage returns end a line too. Whoever does not trust the expression passes a `search`
        that ends in bounded time.
        """
        if self.progress is None:
            return None, offset
        with output.open("rb") as file:
            file.seek(offset)
            fresh = file.read()
        whole = fresh[: max(fresh.rfind(b"\n"), fresh.rfind(b"\r")) + 1]
        step = None
        for line in re.split(r"[\r\n]+", whole.decode(errors="replace")):
            found = search(self.progress, line)
            if found and found["step"].isascii() and found["step"].isdigit():
                step = int(found["step"])
        return step, offset + len(whole)
