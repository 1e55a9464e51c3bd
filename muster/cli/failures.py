"""How a failure of a command is told: the object `error` of --json, and the status with which the command ends."""

from __future__ import annotations

import json
from typing import Any

from muster.problems import BadInput, Unable

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
"""2: what was asked is wrong; 1: it is not, but could not be done."""


def status_of(failure: BadInput | Unable) -> int:
    """Whose mistake it is."""
    return BAD_INPUT if isinstance(failure, BadInput) else FAILED


def error_of(failure: BadInput | Unable) -> dict[str, Any]:
    """For --json; with the daemon's HTTP status, where it has answered."""
    error: dict[str, Any] = {"status": status_of(failure), "message": str(failure)}
    if isinstance(failure, BadInput):
        error["problems"] = [vars(problem) for problem in failure.problems]
    http_status = getattr(failure, "http_status", None)
    return error if http_status is None else error | {"http_status": http_status}


def as_document(error: object, **beside: object) -> str:
    """The one JSON document of a command that failed."""
    return json.dumps({**beside, "error": error}, indent=2, ensure_ascii=False, default=str)
