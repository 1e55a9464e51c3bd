"""The folder through which a job and its scheduler talk; both sides of the protocol of docs/how-to/training.md.

Every file appears whole or not at all, so either side may be killed at any moment. Each start saves in a folder of
its own, `checkpoints-EPOCH`, into which it takes the checkpoints of the start before when it begins, and reports in a
file of its own. Nothing of older starts is read after that. So what a process writes that was left over on a node
believed dead is no part of the job, whenever it does so and whatever its node knows of the disk. No such process can
hold a lock that others wait for.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.problems import InputError, Problem

EXIT_STOPPED = 75
"""Exit status of a job that stopped on notice and wants to be started again (EX_TEMPFAIL)."""

_MOST_BYTES = 1_000_000
_NOTICE = "notice.json"
_BEGUN = "begun"
_OF_START = re.compile(r"(?:checkpoints-|progress-)(\d+)(?:\..+)?")
"""Names in a run folder that belong to one start."""


class Stale(Exception):
    """A newer start of the same job has begun; this process must not publish anything."""


@dataclass(frozen=True)
class Notice:
    """What the scheduler wants of the running start."""

    stop: bool
    cache_gb: float | None
    """None: what the start was given."""
    profiled_share: int | None = None
    """Workers among whom a profile's batch is shared; None: as at the start."""
    discard: int = 0
    """How often a profile has asked that batches prepared so far be discarded."""


class RunFolder:
    """The job's side: one start, identified by its epoch."""

    def __init__(self, path: Path, epoch: int) -> None:
        self.path = path
        self.epoch = epoch
        self._notice_seen: tuple[int, int] | None = None

    @property
    def checkpoints(self) -> Path:
        """The checkpoints of this start, and those that it found."""
        return checkpoint_folder(self.path, self.epoch)

    def check_newest(self) -> None:
        """`Stale` if this start is not the newest one."""
        newest = newest_start(self.path)
        if newest != self.epoch:
            raise Stale(f"start {self.epoch} of this job is over, start {newest} has begun")

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """`Stale` if this start is over, before the body or, where its folder was removed meanwhile, in it."""
        self.check_newest()
        try:
            yield
        except FileNotFoundError:
            self.check_newest()
            raise

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
        return Notice(
            stop=bool(notice.get("stop", False)),
            cache_gb=_gigabytes(path, notice),
            profiled_share=_from_one(path, notice, "profiled_share"),
            discard=_from_one(path, notice, "discard") or 0,
        )

    def report(self, progress: dict[str, Any]) -> None:
        """Publishes how far the job is."""
        # Not flushed: after a crash of the machine the checkpoints say how far it is.
        content = _as_json({"epoch": self.epoch, **progress})
        with self.publishing():
            aside = write_part(self.checkpoints, content, flushed=False)
            with publish_or_remove(aside):
                aside.replace(progress_file(self.path, self.epoch))


def checkpoint_folder(run_dir: Path, epoch: int) -> Path:
    """Where a start saves; it has begun once the folder is there."""
    return run_dir / f"checkpoints-{epoch}"


def progress_file(run_dir: Path, epoch: int) -> Path:
    """Where a start says how far it is."""
    return run_dir / f"progress-{epoch}.json"


def newest_start(run_dir: Path) -> int | None:
    """Return the largest number of a start that has begun; None before the first one."""
    try:
        names = [path.name for path in run_dir.iterdir()]
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(Problem(str(run_dir), f"cannot be read: {error.strerror}")) from None
    begun = (name.removeprefix("checkpoints-") for name in names if name.startswith("checkpoints-"))
    return max((int(epoch) for epoch in begun if epoch.isdecimal()), default=None)


def begin_start(run_dir: Path, epoch: int) -> None:
    """The scheduler's first act of a start: from now on every older start is stale.

    The start has the checkpoints of the one before, or, if this process dies, it has not begun. A notice to an older
    start is void by its epoch.
    """
    run_dir.mkdir(parents=True, exist_ok=True)
    while not _begun(run_dir, epoch, newest_start(run_dir)):
        pass
    for path in list(run_dir.iterdir()):
        owner = _OF_START.fullmatch(path.name)
        if owner is not None and int(owner[1]) < epoch:
            _remove(path)


def make_older_starts_stale(run_dir: Path, epoch: int) -> None:
    """Begin a start, if no other rank of it has done so. InputError if the start is stale itself."""
    if newest_start(run_dir) != epoch:
        try:
            begin_start(run_dir, epoch)
        except InputError:
            if newest_start(run_dir) != epoch:  # or has another rank just done it?
                raise


def _begun(run_dir: Path, epoch: int, newest: int | None) -> bool:
    """Make the folder of a start as a whole; False if another process has begun or removed one meanwhile."""
    if newest is not None and epoch <= newest:
        what = f"starts count up, and start {newest} has begun; allowed: a larger number"
        raise InputError(Problem(str(run_dir), what, found=epoch))
    target = checkpoint_folder(run_dir, epoch)
    aside = target.with_name(f"{target.name}.{socket.gethostname()}-{os.getpid()}.part")
    _remove(aside)
    aside.mkdir()
    try:
        _own_as(run_dir, aside)
        if newest is not None:
            _take_over(checkpoint_folder(run_dir, newest), aside)
        (aside / _BEGUN).touch()  # An empty folder could be replaced by another rank's.
        flush_folder(aside)
        aside.rename(target)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    finally:
        _remove(aside)
    flush_folder(run_dir)
    return True


def _remove(path: Path) -> None:
    """Remove a file or a folder; what a stale process writes there meanwhile is left to the next start."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _take_over(before: Path, folder: Path) -> None:
    """Give a start the checkpoints of the one before: one more name for each, or a copy where the disk has one only."""
    for path in before.glob("step-*"):
        try:
            os.link(path, folder / path.name, follow_symlinks=False)
        except FileNotFoundError:
            raise
        except OSError:
            with path.open("rb") as source, (folder / path.name).open("xb") as copy:
                shutil.copyfileobj(source, copy)
                copy.flush()
                os.fsync(copy.fileno())
            _own_as(path, folder / path.name)


def _own_as(of: Path, path: Path) -> None:
    """What root makes in a user's folder is the user's."""
    if os.geteuid() == 0:
        owner = of.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def give_notice(
    run_dir: Path,
    epoch: int,
    *,
    stop: bool = False,
    cache_gb: float | None = None,
    **of_profile: int,
) -> None:
    """Gives the start `epoch` its instructions, a profile's by their names in `Notice`; replaces those before.

    It is not flushed to the disk: a machine that crashes takes the start with it, and its notice is void then.
    """
    notice = {"epoch": epoch, "stop": stop, "cache_gb": cache_gb, **of_profile}
    _write(run_dir, _NOTICE, notice, flushed=False)


def read_progress(run_dir: Path, epoch: int | None = None) -> dict[str, Any] | None:
    """What a start published last, or the newest one; None before its first report."""
    epoch = newest_start(run_dir) if epoch is None else epoch
    if epoch is None:
        return None
    try:
        return _read_json(progress_file(run_dir, epoch))
    except FileNotFoundError:
        return None


def write_part(folder: Path, content: bytes, *, flushed: bool = True) -> Path:
    """A file beside its place, on the disk, to be renamed."""
    aside = folder / f"{os.getpid()}.part"
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


def _from_one(path: Path, notice: dict[str, Any], name: str) -> int | None:
    value = notice.get(name)
    if value is None or (isinstance(value, int) and value >= 1):
        return value
    what = "allowed: a whole number from 1 on"
    raise InputError(Problem(str(path), what, column=name, found=value))
