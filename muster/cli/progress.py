"""A progress bar on a terminal: jobs done, simulated time, speed, what is left. Into a pipe nothing is written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.simulation import Progress

Show = Callable[[str, "Progress"], None]
"""Called with the name of a run and how far it is."""


def _show_nothing(_name: str, _progress: Progress) -> None:
    """Shows nothing; for output that is not a terminal."""


@contextmanager
def progress_bars(names: Sequence[str], jobs: int) -> Iterator[Show]:
    """A bar for each named run over so many jobs, on stderr, gone at the end."""
    if not sys.stderr.isatty():
        yield _show_nothing
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
