"""What `sweep` and `reproduce` share: finished pieces in a folder, how far it is, interrupts that lose little."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.cli.app import Interrupted
from muster.cli.progress import LinesNowAndThen
from muster.files import unwritable
from muster.formatting import counted, is_or_are
from muster.problems import InputError, Problem

if TYPE_CHECKING:
    from muster.sweep.pieces import Piece, RunBatches


def run_kept(
    pieces: Sequence[Piece], out: Path, workers: int, run: RunBatches | None = None
) -> list[Mapping[str, Any]]:
    """The results of all pieces; what `out` holds already is not done again. `run`: as of `run_pieces`."""
    from muster.sweep.pieces import FOLDER, run_pieces

    folder = out / FOLDER
    _open(out, folder)
    finished = 0
    try:
        with _bar(len(pieces)) as show:

            def count(more: int) -> None:
                nonlocal finished
                finished += more
                show(finished)

            return run_pieces(pieces, folder, workers, count, run)
    except KeyboardInterrupt:
        done = f"{finished:,} of {counted(len(pieces), 'run')} {is_or_are(finished)} done"
        raise Interrupted(
            f"interrupted; {done} and kept in {out}: the same command goes on from there"
        ) from None


def _open(out: Path, folder: Path) -> None:
    """Makes the folder; one with other things in it is refused."""
    try:
        if out.is_dir() and any(out.iterdir()) and not folder.is_dir():
            what = "the folder is not empty and holds no sweep to go on with; name another one"
            raise InputError(Problem(str(out), what))
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from None


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, with what is left; else lines."""
    if not sys.stderr.isatty():
        lines = LinesNowAndThen()
        yield lambda finished: lines.write(lambda: f"{finished:,} of {counted(total, 'run')} done")
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("runs, left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=total)
        yield lambda finished: bars.update(task, completed=finished)
