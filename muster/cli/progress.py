"""How far something is: on a terminal bars with jobs done, simulated time, speed and what is left; else lines."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.simulation import Progress

DRAWING = "Drawing the page and its charts"

Show = Callable[[str, "Progress"], None]
"""Called with the name of a run and how far it is."""


_SECONDS_BETWEEN_LINES = 30.0
_SILENT_SECONDS = 1.0
"""What takes longer says so."""


class LinesNowAndThen:
    """Lines on stderr for a log or a pipe: the first after a moment, then one each half minute at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = clock() + _SILENT_SECONDS

    def write(self, line: Callable[[], str]) -> None:
        """Write the line if it is time for one; it is made only then."""
        now = self._clock()
        if now >= self._next:
            print(line(), file=sys.stderr, flush=True)
            self._next = now + _SECONDS_BETWEEN_LINES


@contextmanager
def progress_bars(names: Sequence[str], jobs: int) -> Iterator[Show]:
    """A bar for each named run over so many jobs, on stderr, gone at the end; where it is no terminal, lines."""
    if not sys.stderr.isatty():
        lines = LinesNowAndThen()

        def line(name: str, progress: Progress) -> None:
            if progress.jobs_done < jobs:
                lines.write(lambda: f"{name}: {_how_far(progress, jobs)}")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from muster.formatting import duration

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("jobs, {task.fields[simulated]} simulated, {task.fields[speed]} jobs/s, left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks = {name: bars.add_task(name, total=jobs, simulated="0 s", speed="?") for name in names}

        def show(name: str, progress: Progress) -> None:
            speed = bars.tasks[tasks[name]].speed
            bars.update(
                tasks[name],
                completed=progress.jobs_done,
                simulated=duration(progress.simulated_seconds),
                speed=f"{speed:,.0f}" if speed else "?",
            )

        yield show


def _how_far(progress: Progress, jobs: int) -> str:
    from muster.formatting import counted, duration

    done = f"{progress.jobs_done:,} of {counted(jobs, 'job')} done"
    return f"{done}, {duration(progress.simulated_seconds)} simulated"


@contextmanager
def noted_if_slow(what: str) -> Iterator[None]:
    """Say on stderr what is being waited for, where it takes a while."""
    timer = threading.Timer(_SILENT_SECONDS, lambda: print(what, file=sys.stderr, flush=True))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """Say what is being waited for: on a terminal moving, gone at the end; in a log or a pipe if it takes a while."""
    if not sys.stderr.isatty():
        with noted_if_slow(what):
            yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
