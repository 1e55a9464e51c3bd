"""What a new process does to become a rank: all between fork and exec.

What touches the folders of the job's owner is done as the owner, so that nothing that the owner puts there (a
link, a lock that is never freed) can hold up or mislead any other job.
"""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from muster import processes
from muster.problems import InputError
from muster.training.run_folder import make_older_starts_stale

CANNOT_START = 127
"""Exit status of a rank that never became one; shells say so too."""
_COMPLAINT_BYTES = 200
"""Of each rank, so that the record of the end has room for all."""


class _MachineRefuses(Exception):
    """What a rank was to be given cannot be had, by no fault of its job's."""


def become(
    rank: int,
    launch: dict[str, Any],
    wanted: dict[str, Any],
    environment: dict[str, str],
    supervisor: int,
    complaint: int,
    output: int | None,
) -> NoReturn:
    """The rank, or its end; `complaint` is a pipe for the reason: an error's number and words.

    `output` is the open file that it prints to, if that could be opened.
    """
    number, words = 0, ""
    try:
        _become(rank, launch, wanted, environment, supervisor, output)
    except OSError as error:
        what = error.filename or "the process"
        number, words = error.errno or 0, f"{what}: {error.strerror or error}"
    except _MachineRefuses as error:
        number, words = errno.EAGAIN, str(error)
    except InputError as error:
        number, words = errno.ESTALE, str(error)
    except BaseException as error:
        words = repr(error)
    os.write(complaint, f"{number} {words}".encode(errors="replace")[:_COMPLAINT_BYTES])
    os._exit(CANNOT_START)


def open_output(output_dir: str, rank: int) -> int:
    """The file that a rank prints to, behind what earlier starts wrote."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(f"{output_dir}/{rank}.log", flags, 0o640)


def read_complaint(complaint: int) -> tuple[int, str]:
    """What a rank that has ended wrote; 0 and nothing, if it was brought up."""
    number, _, words = os.read(complaint, _COMPLAINT_BYTES).decode(errors="replace").partition(" ")
    return int(number or 0), words


def _become(
    rank: int,
    launch: dict[str, Any],
    wanted: dict[str, Any],
    environment: dict[str, str],
    supervisor: int,
    output: int | None,
) -> None:
    os.setsid()
    try:
        for door in wanted["doors"]:
            with open(door, "w") as file:  # noqa: PTH123
                file.write("0")
        if wanted["affinity"] is not None:
            os.sched_setaffinity(0, wanted["affinity"])
    except OSError as error:
        raise _MachineRefuses(f"{error.filename or 'its CPUs'}: {error.strerror}") from None
    if output is None:
        output = open_output(launch["output_dir"], rank)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.umask(0o022)
    if (identity := launch["identity"]) is not None:
        os.setgroups(identity["groups"])
        os.setgid(identity["gid"])
        os.setuid(identity["uid"])
    # After the change of user, which would undo it.
    processes.die_with_parent()
    if os.getppid() != supervisor:
        os._exit(CANNOT_START)
    make_older_starts_stale(Path(launch["run_dir"]), launch["epoch"])
    os.chdir(launch["directory"])
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError):  # the C library keeps two for itself
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    command = launch["command"]
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        error.filename = command[0]
        raise
