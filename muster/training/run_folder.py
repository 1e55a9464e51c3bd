"""The folder through which a job and its scheduler talk; both sides of the protocol of docs/how-to/training.md.

Every file appears whole or not at all, so either side may be killed at any moment. A job publishes only
while it holds the folder's lock and only if its start is still the newest one: a process left over on a
node that was believed dead can neither report nor write checkpoints.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.problems import InputError, Problem

EXIT_STOPPED = 75
"""Exit status of a job that stopped on notice and wants to be started again (EX_TEMPFAIL)."""

_MOST_BYTES = 1_000_000
_START, _NOTICE, _PROGRESS, _LOCK = "start.json", "notice.json", "progress.json", "lock"


class Stale(Exception):
    """A newer start of the same job has begun; this process must not publish anything."""


@dataclass(frozen=True)
class Notice:
    """What the scheduler wants of the running start."""

    stop: bool
    cache_gb: float | None
    """None: what the start was given."""


class RunFolder:
    """The job's side: one start, identified by its epoch."""

    def __init__(self, path: Path, epoch: int) -> None:
        self.path = path
        self.epoch = epoch
        self._notice_seen: tuple[int, int] | None = None

    @property
    def part_name(self) -> str:
        """Ending of files being written, other than the scheduler's, which may write at any time."""
        return f"{self.epoch}-{os.getpid()}"

    def remove_parts(self) -> None:
        """What dead starts have left; for a process that is publishing."""
        for part in (*self.path.glob("*-*.part"), *self.path.glob("checkpoints/*.part")):
            part.unlink(missing_ok=True)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Holds the lock in which this start is known to be the newest; `Stale` if it is not."""
        with _locked(self.path):
            newest = _newest_epoch(self.path)
            if newest != self.epoch:
                raise Stale(f"start {self.epoch} of this job is over, start {newest} has begun")
            yield

    def new_notice(self) -> Notice | None:
        """The notice, if there is one that has not been read yet and is meant for this start."""
        path = self.path / _NOTICE
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        seen = (found.st_ino, found.st_mtime_ns)
        if seen == self._notice_seen:
            return None
        self._notice_seen = seen
        notice = _read_json(path)
        if notice.get("epoch") != self.epoch:
            return None
        return Notice(stop=bool(notice.get("stop", False)), cache_gb=_gigabytes(path, notice))

    def report(self, progress: dict[str, Any]) -> None:
        """Publishes how far the job is."""
        # Not flushed: after a crash of the machine the checkpoints say how far it is.
        content = _as_json({"epoch": self.epoch, **progress})
        aside = write_part(self.path, content, name=self.part_name, flushed=False)
        with publish_or_remove(aside), self.publishing():
            aside.replace(self.path / _PROGRESS)


def begin_start(run_dir: Path, epoch: int) -> None:
    """The scheduler's first act of a start: from now on every older start is stale.

    Returns once no older start is publishing. A notice to an older start is void by its epoch.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    with _locked(run_dir):
        newest = _newest_epoch(run_dir)
        if newest is not None and epoch <= newest:
            what = f"starts count up, and start {newest} has begun; allowed: a larger number"
            raise InputError(Problem(str(run_dir / _START), what, found=epoch))
        _write(run_dir, _START, {"epoch": epoch})


def make_older_starts_stale(run_dir: Path, epoch: int) -> None:
    """Begin a start, if no other rank of it has done so. InputError if the start is stale itself."""
    if not _is_newest(run_dir, epoch):
        try:
            begin_start(run_dir, epoch)
        except InputError:
            if not _is_newest(run_dir, epoch):  # or has another rank just done it?
                raise


def _is_newest(run_dir: Path, epoch: int) -> bool:
    try:
        with RunFolder(run_dir, epoch).publishing():
            pass
    except (FileNotFoundError, Stale):
        return False
    return True


def give_notice(run_dir: Path, epoch: int, *, stop: bool = False, cache_gb: float | None = None) -> None:
    """Gives the start `epoch` its instructions; replaces the notice before.

    It is not flushed to the disk: a machine that crashes takes the start with it, and its notice is void then.
    """
    _write(run_dir, _NOTICE, {"epoch": epoch, "stop": stop, "cache_gb": cache_gb}, flushed=False)


def read_progress(run_dir: Path) -> dict[str, Any] | None:
    """What the job published last; None before its first report."""
    try:
        return _read_json(run_dir / _PROGRESS)
    except FileNotFoundError:
        return None


def write_part(folder: Path, content: bytes, *, name: str | None = None, flushed: bool = True) -> Path:
    """A file beside its place, on the disk, to be renamed."""
    aside = folder / f"{name or os.getpid()}.part"
    # Created, never opened: a link of that name in a user's folder must not lead a scheduler of root elsewhere.
    aside.unlink(missing_ok=True)
    with aside.open("xb") as file:
        if os.geteuid() == 0:  # what root leaves in a user's folder is the user's to read
            owner = folder.stat()
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write(content)
        if flushed:
            file.flush()
            os.fsync(file.fileno())
    return aside


def flush_folder(folder: Path) -> None:
    """Brings renames in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def publish_or_remove(aside: Path) -> Iterator[None]:
    """Leaves no part behind if the body fails."""
    try:
        yield
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """The folder's lock; the kernel frees it if its holder dies."""
    file = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _newest_epoch(folder: Path) -> int | None:
    path = folder / _START
    if not path.exists():
        return None
    epoch = _read_json(path).get("epoch")
    if not isinstance(epoch, int):
        raise InputError(Problem(str(path), "allowed: a whole number", column="epoch", found=epoch))
    return epoch


def _write(folder: Path, name: str, content: dict[str, Any], *, flushed: bool = True) -> None:
    aside = write_part(folder, _as_json(content), flushed=flushed)
    with publish_or_remove(aside):
        aside.replace(folder / name)
    if flushed:
        flush_folder(folder)


def _as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, sort_keys=True) + "\n").encode()


@contextmanager
def ordinary_file(path: Path) -> Iterator[int]:
    """Opens a file to read. Another owner of the folder cannot make the reader wait, or read elsewhere."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(Problem(str(path), "allowed: an ordinary file"))
            yield descriptor
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error.strerror}")) from None


def _read_json(path: Path) -> dict[str, Any]:
    with ordinary_file(path) as file:
        text = os.read(file, _MOST_BYTES)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(Problem(str(path), f"cannot be read as JSON: {error}")) from None
    if not isinstance(content, dict):
        raise InputError(Problem(str(path), "allowed: a JSON object", found=type(content).__name__))
    return content


def _gigabytes(path: Path, notice: dict[str, Any]) -> float | None:
    value = notice.get("cache_gb")
    if value is None:
        return None
    if not isinstance(value, int | float) or not (math.isfinite(value) and value >= 0):
        raise InputError(Problem(str(path), "allowed: a number from 0 on", column="cache_gb", found=value))
    return float(value)
