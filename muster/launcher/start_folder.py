"""The folder of one start, the daemon's side: made whole or not at all, and read at every look.

It has to survive the daemon, not the machine, whose death ends all starts: nothing waits for the disk here. What a
crash of the machine leaves in pieces is swept away; to the controller that start is lost, and it begins it again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from muster.launcher.journal import append_record, opened, read_records, replace_records, reserve
from muster.training.run_folder import progress_file

_NAME = re.compile(r"(\d+)\.(\d+)")
_PART = ".part"
_WORDS = 1000
"""Characters of a last line that are worth keeping; they must fit into a record."""


class StartFolder:
    """The files of a start that are described in `supervisor.py`."""

    def __init__(self, path: Path) -> None:
        """Of a start that was made; ValueError if the folder is not one."""
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise ValueError(f"{path} is not the folder of a start")
        self.path = path
        self.job, self.epoch = int(match[1]), int(match[2])
        self.wanted: dict[str, Any] = {}
        with opened(path / "wanted", os.O_RDONLY) as file:
            for record in read_records(file):
                self.wanted = record

    def records(self) -> list[dict[str, Any]]:
        """What the supervisor wrote so far."""
        with opened(self.path / "status", os.O_RDONLY) as file:
            return read_records(file)

    def want(self, **changes: Any) -> None:
        """Writes for the supervisor what is wanted from now on; one that is not up yet will read it first."""
        self.wanted = self.wanted | changes
        with opened(self.path / "wanted", os.O_RDWR) as file:
            replace_records(file, self.wanted)
        # The supervisor may not be up yet, or gone.
        with suppress(OSError), opened(self.path / "bell", os.O_WRONLY | os.O_NONBLOCK) as bell:
            os.write(bell, b"!")

    def has_supervisor(self) -> bool:
        """Whether one lives. Only to be called when it has written something: else it could find its lock taken."""
        with self._locked() as was_free:
            return not was_free

    def end_without_supervisor(self, record: dict[str, Any], *, unless_begun: bool) -> bool:
        """Writes the end in a supervisor's stead, so that none comes up any more; False if one lives (or began)."""
        with self._locked() as was_free, opened(self.path / "status", os.O_RDWR) as file:
            known = read_records(file)
            if not was_free or (known and (unless_begun or "ended" in known[-1])):
                return False
            append_record(file, record)
            return True

    def signs_of_life(self) -> Iterator[float]:
        """When the start or its ranks wrote something, by the files that they write to."""
        launch = json.loads((self.path / "launch.json").read_text())
        first = launch["first_rank"]
        ranks = range(first, first + launch["ranks"])
        logs = (Path(launch["output_dir"]) / f"{rank}.log" for rank in ranks)
        for path in (self.path / "status", progress_file(Path(launch["run_dir"]), launch["epoch"]), *logs):
            with suppress(OSError):
                yield path.lstat().st_mtime

    def last_words(self) -> str:
        """The last line that the supervisor itself printed: it prints only when it breaks."""
        lines = (self.path / "supervisor.log").read_text(errors="replace").split("\n")
        return next((line[:_WORDS] for line in reversed(lines) if line.strip()), "")

    def remove(self) -> None:
        """Removes the folder: at once out of sight, then its files."""
        aside = self.path.with_name(self.path.name + _PART)
        self.path.rename(aside)
        shutil.rmtree(aside)

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Holds the supervisor's lock if it is free, and yields whether it was."""
        with opened(self.path / "lock", os.O_RDWR) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True


def make_start_folder(
    path: Path,
    launch: dict[str, Any],
    wanted: dict[str, Any],
    end: dict[str, Any] | None,
) -> StartFolder:
    """A start that will be known from now on, whatever happens; OSError (a full disk) leaves nothing behind.

    With an `end` it is one that has ended before it began.
    """
    aside = path.with_name(path.name + _PART)
    if aside.exists():
        shutil.rmtree(aside)
    aside.mkdir(mode=0o700)
    try:
        for name in ("status", "wanted"):
            reserve(aside / name)
        for name in ("lock", "supervisor.log"):
            (aside / name).touch()
        os.mkfifo(aside / "bell")
        with (aside / "launch.json").open("w") as file:
            json.dump(launch, file)
        for name, record in (("wanted", wanted), ("status", end)):
            if record is not None:
                _write_first(aside / name, record)
        aside.rename(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return StartFolder(path)


def known_start_folders(parent: Path) -> list[StartFolder]:
    """All starts that were made here, in the order of job and epoch; what was left half made or removed goes.

    OSError if one cannot be read now: it may live, so it is neither left out nor removed.
    """
    folders = []
    for path in parent.iterdir():
        if _NAME.fullmatch(path.name):
            if _is_whole(path):
                folders.append(StartFolder(path))
            else:
                _remove_pieces(path)
        elif _NAME.fullmatch(path.name.removesuffix(_PART)):
            shutil.rmtree(path, ignore_errors=True)
    return sorted(folders, key=lambda folder: (folder.job, folder.epoch))


def _is_whole(path: Path) -> bool:
    """Whether all its files are there, as they always are unless the machine crashed."""
    try:
        json.loads((path / "launch.json").read_text())
        for name in ("status", "lock", "bell", "supervisor.log"):
            (path / name).lstat()
        with opened(path / "wanted", os.O_RDONLY) as file:
            return bool(read_records(file))
    except (FileNotFoundError, ValueError):
        return False


def _remove_pieces(path: Path) -> None:
    """What a crash of the machine left; OSError if a supervisor lives in it all the same."""
    with suppress(FileNotFoundError), opened(path / "lock", os.O_RDWR) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            what = "is in pieces, and the supervisor of that start lives; end its processes first"
            raise OSError(errno.EBUSY, what, str(path)) from None
        shutil.rmtree(path)
    shutil.rmtree(path, ignore_errors=True)  # it had no lock, so no supervisor ever ran in it


def _write_first(path: Path, record: dict[str, Any]) -> None:
    with opened(path, os.O_RDWR) as file:
        append_record(file, record)
