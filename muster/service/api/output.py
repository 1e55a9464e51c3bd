"""What a job has written, read without following where it may lead: its folder is its owner's to fill."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from muster.service.home import WHOSE, job_folder
from muster.service.store.rows import JobRow

_MOST_BYTES = 10_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe in the place of a file must not keep us waiting for its writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_output(home: Path, job: JobRow, rank: int, offset: int, limit: int) -> bytes:
    """Bytes of `output/RANK.log` from an offset on; none where there is no such file, or something else.

    Nor where the folder is that of another job of its number, in a store that was here before.
    """
    with ExitStack() as opened:

        def open_at(name: str | Path, flags: int, folder: int | None = None) -> int:
            descriptor = os.open(name, flags, dir_fd=folder)
            opened.callback(os.close, descriptor)
            return descriptor

        try:
            own = open_at(job_folder(home, job.id), _FOLDER)
            with suppress(FileNotFoundError):
                if os.read(open_at(WHOSE, _FILE, own), _MOST_BYTES) != job.whose.encode():
                    return b""
            folder = open_at("output", _FOLDER, own)
            file = open_at(f"{rank}.log", _FILE, folder)
            there = os.fstat(file)
            if not stat.S_ISREG(there.st_mode) or there.st_nlink > 1:
                return b""
            return os.pread(file, limit, offset)
        except OSError:
            return b""
