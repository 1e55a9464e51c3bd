"""What a job has written, read without following where it may lead: its folder is its owner's to fill."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from muster.service.home import WHOSE, job_folder
from muster.service.store.rows import JobRow

_MOST_BYTES = 10_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe in the place of a file must not keep us waiting for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class OutputPiece:
    """A part of what a job has written, and where the next part begins."""

    data: bytes
    next_offset: int


def read_output(home: Path, job: JobRow, rank: int, offset: int, limit: int) -> OutputPiece:
    """A piece of `output/RANK.log` from an offset on; empty where there is no such file, or something else.

    A negative offset counts from the end of the file; it is the file's begin where the file is shorter.
    Nor where the folder is that of another job of its number, in a store that was here before. Output that was dropped
    at the job's limit is passed over.
    """
    nothing = OutputPiece(b"", max(offset, 0))
    with ExitStack() as opened:

        def open_at(name: str | Path, flags: int, folder: int | None = None) -> int:
            descriptor = os.open(name, flags, dir_fd=folder)
            opened.callback(os.close, descriptor)
            return descriptor

        try:
            own = open_at(job_folder(home, job.id), _FOLDER)
            with suppress(FileNotFoundError):
                if os.read(open_at(WHOSE, _FILE, own), _MOST_BYTES) != job.whose.encode():
                    return nothing
            folder = open_at("output", _FOLDER, own)
            file = open_at(f"{rank}.log", _FILE, folder)
            there = os.fstat(file)
            if (
                not stat.S_ISREG(there.st_mode)
                or there.st_nlink > 1
                or there.st_uid not in _writers(job.user)
            ):
                return nothing
            if offset < 0:
                offset = max(there.st_size + offset, 0)
            begin = _after_hole(file, offset)
            data = os.pread(file, limit, begin)
            end = begin + len(data)
            return OutputPiece(data.lstrip(b"\0") if begin > offset else data, end)
        except OSError:
            return nothing


def _writers(user: str) -> set[int]:
    """Whose files may be a job's output: the daemon's, and on a shared disk its owner's."""
    with suppress(KeyError):
        return {os.geteuid(), pwd.getpwnam(user).pw_uid}
    return {os.geteuid()}


def _after_hole(file: int, offset: int) -> int:
    """The first byte from an offset on that was not dropped; the offset itself where that cannot be known."""
    try:
        return os.lseek(file, offset, os.SEEK_DATA)
    except OSError:
        return offset
