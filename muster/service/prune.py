"""Forgetting what ended long ago: jobs with their histories and folders, and decisions, a piece at a time."""

from __future__ import annotations

import os
import shutil
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path

from muster.service.home import WHOSE, job_folder
from muster.service.store import Store
from muster.service.store.rows import JobRow

_MOST_JOBS, _MOST_DECISIONS = 1000, 20_000
"""Of a piece: the store writes nothing else while it forgets them."""
_SECONDS = 3.0
"""After which a piece is long enough; a job's folder may hold many GB."""


@dataclass
class Pruned:
    """The result of one piece of the work."""

    jobs: int = 0
    bytes: int = 0
    """In the folders of these jobs."""
    kept: dict[int, str] = field(default_factory=dict)
    """Jobs whose folders could not be removed, and why not; they stay whole in the store."""
    next: int | None = None
    """The `after` of the next piece; None: there is none."""


def prune(store: Store, home: Path, before: float, after: int = 0, *, dry_run: bool = False) -> Pruned:
    """The next piece of all that ended before a moment of the store's clock: jobs after `after`, at last decisions.

    Folders go before what the store knows of their jobs, so that a crash leaves no folder without a row.
    """
    rows = store.ended_before(before, after, _MOST_JOBS)
    if not rows:
        more = not dry_run and store.forget_decisions(before, _MOST_DECISIONS) == _MOST_DECISIONS
        return Pruned(next=after if more else None)
    done, gone = Pruned(), []
    give_up = time.monotonic() + _SECONDS
    for row in rows:
        done.next = row.id
        folder = job_folder(home, row.id)
        try:
            if _is_of(folder, row):
                size = _bytes_in(folder)
                if not dry_run:
                    shutil.rmtree(folder)
                done.bytes += size
        except OSError as error:
            done.kept[row.id] = f"{error.filename or folder} cannot be removed: {error.strerror}"
        else:
            gone.append(row.id)
        if time.monotonic() >= give_up:
            break
    if not dry_run:
        store.forget(gone)
    done.jobs = len(gone)
    return done


def _is_of(folder: Path, row: JobRow) -> bool:
    """Whether there is a folder, and it is not that of a job of the same number in another store."""
    try:
        return (folder / WHOSE).read_text(errors="replace") == row.whose
    except OSError:
        return folder.is_dir() and not folder.is_symlink()


def _bytes_in(folder: Path) -> int:
    """Of its files; what is moved about in it meanwhile leads nowhere else."""
    total = 0
    for _, _, names, opened in os.fwalk(folder, follow_symlinks=False):
        for name in names:
            try:
                there = os.stat(name, dir_fd=opened, follow_symlinks=False)
            except FileNotFoundError:
                continue
            total += there.st_size if stat.S_ISREG(there.st_mode) else 0
    return total
