"""Muster, from the command line: one file for each command or noun, which parses, calls and prints.

This file is the entry point. It imports next to nothing itself, so that Ctrl-C and SIGTERM find it ready.
"""

from __future__ import annotations

import _thread
import gc
import io
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

RETRY_SECONDS = 0.01
"""How long an interrupt waits that came where nothing can be raised."""
OBJECTS_PER_COLLECTION = 50_000
"""New objects after which unreachable cycles are looked for. With Python's own number, 700, the search takes a tenth
of a short command, nearly all of it in imports, which leave no cycles."""
PYTHONS_COLLECTION = gc.get_threshold()
"""For a process that lives long."""


def main() -> None:
    """Run the command line and end the process with its status."""
    sys.unraisablehook = _interrupt_again
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    _prepare_output()
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt_once)
    try:
        from muster.cli.app import run

        status = run(sys.argv[1:])
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        from muster.cli.failures import BAD_INPUT, report_failure
        from muster.extras import SERVICE, SIMULATOR, install_command

        message = (
            "this installation has only what training jobs import. "
            f"Hint: {install_command(SIMULATOR)}; serve, submit and the like need [{SERVICE}]"
        )
        status = report_failure("--json" in sys.argv, BAD_INPUT, message)
    except KeyboardInterrupt:
        # It came during the imports of the line above; `run` answers all others itself.
        from muster.cli.failures import INTERRUPTED, report_failure

        status = report_failure("--json" in sys.argv, INTERRUPTED, "interrupted; nothing was written")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(_flushed(status))


def _prepare_output() -> None:
    """Make output possible in an encoding other than UTF-8: a sign that it lacks is a question mark, JSON is UTF-8."""
    if not isinstance(sys.stdout, io.TextIOWrapper) or sys.stdout.encoding.lower() in ("utf-8", "utf8"):
        return
    if "--json" in sys.argv:
        sys.stdout.reconfigure(encoding="utf-8")
    else:
        sys.stdout.reconfigure(errors="replace")


def _flushed(status: int) -> int:
    """The status of the process after its last output is written; 1 if that fails."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        from muster.cli.failures import report_unwritable

        return report_unwritable(error)
    return status


def _interrupt_once(*_: object) -> None:
    """Raise what Ctrl-C raises. `timeout` sends SIGTERM twice: the second must not end the clearing up."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    raise KeyboardInterrupt


def _interrupt_again(unraisable: UnraisableHookArgs) -> None:
    """Raise an interrupt once more that came within a finalizer or a callback, where it would be lost."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        threading.Timer(RETRY_SECONDS, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(unraisable)


__all__ = ["main"]
