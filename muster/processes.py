"""What /proc says about processes, and what can be done to them. A zombie counts as dead."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple


class Process(NamedTuple):
    """A living process."""

    pid: int
    parent: int
    began: int
    """Clock ticks after boot; with the pid it names one process for ever."""


MARK = "MUSTER_START"
"""In the environment of all processes of a start: its folder. By it they are found where there is no group."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def look_at(pid: int) -> Process | None:
    """A process as it is now; None if there is none, or a zombie."""
    try:
        text = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The name, in parentheses, may itself have spaces and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else Process(pid, int(fields[1]), int(fields[19]))


def all_processes() -> Iterator[Process]:
    """Every living process of the machine."""
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit() and (process := look_at(int(name))) is not None:
            yield process


def descendants(ancestor: int) -> list[int]:
    """The children of a process, theirs, and so on."""
    children: dict[int, list[int]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process.pid)
    found: list[int] = []
    open_ends = [ancestor]
    while open_ends:
        fresh = children.get(open_ends.pop(), [])
        found += fresh
        open_ends += fresh
    return found


def marked(folder: object) -> list[int]:
    """The processes of the start in this folder, as far as we may look."""
    mark = f"{MARK}={folder}".encode()
    return [process.pid for process in all_processes() if mark in _environment(process.pid)]


def is_of_a_start(pid: int) -> bool:
    """Whether it belongs to a start of any daemon, as far as we may look."""
    return any(variable.startswith(f"{MARK}=".encode()) for variable in _environment(pid))


def die_with_parent() -> None:
    """From now on this process is killed when the thread that forked it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """From now on descendants of this process whose parents end become its children."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL to each."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def run_on(pids: Iterable[int], cpus: Iterable[int]) -> None:
    """Moves processes, with all their threads, to these CPUs."""
    allowed = frozenset(cpus)
    for pid in pids:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                with suppress(OSError):
                    os.sched_setaffinity(int(thread), allowed)


def memory_bytes(pids: Iterable[int], *, at_most: int) -> int:
    """Memory of these processes together; pages that they share count once if the sum is above `at_most`.

    Only then is the exact and slow answer of the kernel (PSS) asked for.
    """
    pids = list(pids)
    resident = 0
    for pid in pids:
        with suppress(OSError):
            resident += int(_read(f"/proc/{pid}/statm").split()[1]) * _PAGE_BYTES
    return resident if resident <= at_most else sum(map(_proportional_bytes, pids))


def _proportional_bytes(pid: int) -> int:
    with suppress(OSError):
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _environment(pid: int) -> list[bytes]:
    """As it was when the process began."""
    with suppress(OSError):
        return _read(f"/proc/{pid}/environ").split(b"\0")
    return []


def _read(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()
