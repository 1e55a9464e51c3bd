"""How a command reports a failure: the object `error` of --json, and the status with which the command ends."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Any

from muster.problems import InputError, Unable

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""2: what was asked is wrong; 1: it is not, but could not be done."""


def status_of(failure: InputError | Unable) -> int:
    """Whose mistake it is."""
    return BAD_INPUT if isinstance(failure, InputError) else FAILED


def error_of(failure: InputError | Unable) -> dict[str, Any]:
    """For --json; with the daemon's HTTP status, where it has answered."""
    error: dict[str, Any] = {"status": status_of(failure), "message": str(failure)}
    if isinstance(failure, InputError):
        error["problems"] = [vars(problem) for problem in failure.problems]
    http_status = getattr(failure, "http_status", None)
    return error if http_status is None else error | {"http_status": http_status}


def as_document(error: object, **beside: object) -> str:
    """The one JSON document of a command that failed."""
    return json.dumps({**beside, "error": error}, indent=2, ensure_ascii=False, default=str)


def report_failure(as_json: bool, status: int, message: str, **details: object) -> int:
    """Print what went wrong, on stderr or as the one JSON document on stdout; the status of the process."""
    if not as_json:
        _print_error(message)
        return status
    try:
        print(as_document({"status": status, "message": message, **details}))
    except OSError as error:
        return report_unwritable(error)
    return status


def report_unwritable(error: OSError) -> int:
    """Print that the output cannot be written, unless its reader has left; the status of the process."""
    if not isinstance(error, BrokenPipeError):
        _print_error(f"the output cannot be written: {error.strerror or error}")
    # What is left of the output goes nowhere, so that the end of the interpreter does not try again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _print_error(message: str) -> None:
    from muster.formatting import printable

    with suppress(OSError):
        print(printable(message), file=sys.stderr)
