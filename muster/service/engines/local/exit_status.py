"""From what a supervisor wrote about the end of a start to how it ended."""

from __future__ import annotations

import errno
import signal
from typing import Any, NamedTuple

from muster.service.engines.interface import Exit
from muster.training.run_folder import EXIT_STOPPED

_NOT_THE_JOBS_DOING = frozenset(
    {
        *(errno.EAGAIN, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC),
        errno.ESTALE,
    }
)
"""Errors that say: not now; or (the last) that a newer start has begun."""


class StartEnd(NamedTuple):
    """How a start ended."""

    how: Exit
    status: int | None
    """Of the first rank that ended badly."""
    message: str
    failed_rank: int | None = None
    """That rank, where it failed or killed the start."""


def classify(record: dict[str, Any], memory_kills: int, memory_gb: float) -> StartEnd:
    """How a start ended.

    `record` is the last one in its folder, `memory_kills` how many processes the kernel killed at the limit of
    `memory_gb`. What came first decides, as the other ranks of a gang end because one did.
    """
    if "refused" in record:
        return StartEnd(Exit.FAILED, None, record["refused"])
    if "vanished" in record:
        return StartEnd(Exit.LOST if record.get("lost") else Exit.KILLED, None, record["vanished"])
    bad = [ending for ending in record["endings"] if ending[1] != 0]
    over_memory = record["over_memory_bytes"]
    if cause := _cause_beside(record):
        return StartEnd(cause[0], bad[0][1] if bad else None, cause[1])
    if not record["endings"]:
        return StartEnd(Exit.STOPPED, None, "stopped before it had a process")
    if not bad:
        return StartEnd(Exit.COMPLETED, 0, "")
    rank, status, error, why = bad[0]
    if status == EXIT_STOPPED or _was_sent(status, record):
        return StartEnd(Exit.STOPPED, status, "")
    if over_memory is not None or memory_kills:
        used = "" if over_memory is None else f", with {over_memory / 1e9:.3g} GB in use"
        return StartEnd(Exit.KILLED, status, f"killed by the memory limit of {memory_gb:.6g} GB{used}", rank)
    if why:
        ended = Exit.LOST if error in _NOT_THE_JOBS_DOING else Exit.FAILED
        return StartEnd(ended, status, f"rank {rank} could not be started: {why}", rank)
    if status < 0:
        return StartEnd(Exit.KILLED, status, f"rank {rank} was ended by {_signal_name(-status)}", rank)
    return StartEnd(Exit.FAILED, status, f"rank {rank} ended with status {status}", rank)


def _cause_beside(record: dict[str, Any]) -> tuple[Exit, str] | None:
    """What ended a start whatever its status: as after any request to stop, 0 may only say that it has saved."""
    if record.get("cut_off"):
        return Exit.LOST, "its node was cut off, so it was asked to stop"
    if record.get("other_died"):
        return Exit.STOPPED, "a rank on another node died"
    return None


def _was_sent(status: int, record: dict[str, Any]) -> bool:
    """Whether it is the status of a process, or of a shell around it (128 + number), ended by what it was sent."""
    numbers = {signal.Signals[name].value for name in record["sent"]}
    if record["killed"]:
        numbers.add(signal.SIGKILL.value)
    return (-status if status < 0 else status - 128) in numbers


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
