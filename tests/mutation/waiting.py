"""Waits for a process as long as it, or a process that it has started, has something to do.

Wall-clock time says nothing on a busy machine: a process that is ready to run but gets no processor is not stuck.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

OVERTIME = 128 + signal.SIGPROF
"""The exit status that stands for too much processor time."""
_LOOK_SECONDS = 1.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def wait_while_busy(
    process: subprocess.Popen[bytes],
    idle_seconds: float,
    processor_seconds: float,
    look_seconds: float = _LOOK_SECONDS,
) -> int | None:
    """Returns the exit status, OVERTIME after so much processor time, and None after so many idle seconds in all.

    A second is idle if no thread of the process and its descendants runs, is ready to run or reads from a disk. The
    processor time is that of processes that are alive and of their ended children.
    """
    idle = 0.0
    while idle < idle_seconds:
        try:
            return process.wait(look_seconds)
        except subprocess.TimeoutExpired:
            family = list(_with_descendants(process.pid))
            if sum(map(_processor_seconds, family)) > processor_seconds:
                return OVERTIME
            if not any(map(_has_work, family)):
                idle += look_seconds
    return None


def _with_descendants(pid: int) -> Iterator[int]:
    """A process and all that it has started and that are still there."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*"):
        for child in _read(task / "children").split():
            yield from _with_descendants(int(child))


def _has_work(pid: int) -> bool:
    """Whether a thread of a process runs, is ready to run, or waits for a disk."""
    tasks = Path(f"/proc/{pid}/task").glob("*")
    return any(_fields(task / "stat")[:1] in (["R"], ["D"]) for task in tasks)


def _processor_seconds(pid: int) -> float:
    """User and system time of a process and of its children that have ended."""
    return sum(map(int, _fields(Path(f"/proc/{pid}/stat"))[11:15])) / _TICKS_PER_SECOND


def _fields(stat: Path) -> list[str]:
    """The fields after the name, which may contain anything; none of a process that is gone."""
    return _read(stat).rpartition(")")[2].split()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
