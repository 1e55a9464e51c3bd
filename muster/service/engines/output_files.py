"""What a job has written, read without following where it may lead: its folder is its owner's to fill."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from muster.service.engines.interface import OutputPiece, OutputRequest
from muster.service.home import WHOSE

_MOST_BYTES = 10_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe in the place of a file must not keep us waiting for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_OUTPUT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM})
"""Errors that say what is there; others say that it cannot be read now."""


def read_output_file(request: OutputRequest) -> OutputPiece:
    """A piece of `RANK.log` in the folder of the output; empty where there is no such file, or something else.

    Nor where the folder is that of another job of its number, in a store that was here before. Output that was dropped
    at the job's limit is passed over. OSError if the disk fails.
    """
    offset, nothing = request.offset, OutputPiece(b"", max(request.offset, 0))
    with ExitStack() as opened:

        def open_at(name: str | Path, flags: int, folder: int | None = None) -> int:
            descriptor = os.open(name, flags, dir_fd=folder)
            opened.callback(os.close, descriptor)
            return descriptor

        try:
            own = open_at(request.output_dir.parent, _FOLDER)
            with suppress(FileNotFoundError):
                if os.read(open_at(WHOSE, _FILE, own), _MOST_BYTES) != request.whose.encode():
                    return nothing
            folder = open_at(request.output_dir.name, _FOLDER, own)
            file = open_at(f"{request.rank}.log", _FILE, folder)
            there = os.fstat(file)
            if (
                not stat.S_ISREG(there.st_mode)
                or there.st_nlink > 1
                or there.st_uid not in _writers(request.user)
            ):
                return nothing
            if offset < 0:
                offset = max(there.st_size + offset, 0)
            begin = _after_hole(file, offset)
            data = os.pread(file, request.limit, begin)
            end = begin + len(data)
            return OutputPiece(data.lstrip(b"\0") if begin > offset else data, end)
        except OSError as error:
            if error.errno not in _NO_OUTPUT:
                raise
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
