"""Every way in which a request can fail, as one JSON shape and in the words of the house."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel

from muster.checked_toml import describe_error, without_wrong_counts
from muster.problems import InputError, Problem
from muster.service.callers import UnknownCaller
from muster.service.store import StoreUnavailable

_SHOWN_CHARACTERS = 200
_RETRY_SECONDS = 1

log = structlog.get_logger()


class WrongField(BaseModel):
    """One thing that is wrong with a request."""

    where: str
    what: str
    row: int | None = None
    column: str | None = None
    """The field; entries of a list count from 1."""
    found: str | int | float | bool | None = None


class ErrorBody(BaseModel):
    """What went wrong."""

    status: int
    message: str
    problems: list[WrongField] = []


class Failure(BaseModel):
    """The answer to a request that was not done; nothing of it was."""

    error: ErrorBody


class Refused(Exception):
    """A request that is understood and not done."""

    def __init__(self, status: int, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.problems = problems


def may_answer(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These failures, for the description of a route; besides those that every route may have."""
    return {
        status: {"model": Failure, "description": HTTPStatus(status).phrase}
        for status in sorted({*statuses, 401, 422, 503})
    }


def handle_failures(app: FastAPI) -> None:
    """Registers a handler for every kind of failure of an app."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(UnknownCaller, _unknown)
    app.add_exception_handler(InputError, _bad_input)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(StoreUnavailable, _unavailable)
    app.add_exception_handler(Exception, _unforeseen)
    for status in (400, 404, 405, 413):
        app.add_exception_handler(status, _http)


def _answer(
    status: int, message: str, problems: Sequence[Problem] = (), headers: Mapping[str, str] | None = None
) -> Response:
    listed = [vars(problem) | {"found": _shown(problem.found)} for problem in problems]
    content = {"error": {"status": status, "message": message, "problems": listed}}
    # Escaped, as what was found may be no text that UTF-8 has.
    return Response(json.dumps(content), status, headers=headers, media_type="application/json")


def _shown(found: object) -> object:
    if isinstance(found, str):
        return found if len(found) <= _SHOWN_CHARACTERS else found[:_SHOWN_CHARACTERS] + "..."
    if isinstance(found, float) and not math.isfinite(found):
        return str(found)
    return found if found is None or isinstance(found, int | float) else repr(found)[:_SHOWN_CHARACTERS]


def too_large() -> Response:
    """To a body over the limit."""
    return _answer(413, "the body is too large")


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _answer(error.status, str(error), error.problems)


def _unknown(_: Request, error: Exception) -> Response:
    return _answer(401, str(error), headers={"WWW-Authenticate": "Bearer"})


def _bad_input(_: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    return _answer(422, str(error), error.problems)


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    body = getattr(request.scope.get("route"), "body_field", None)
    model = body.field_info.annotation if body is not None else None
    problems = [_problem(details, model) for details in without_wrong_counts(error.errors())]
    return _answer(422, str(InputError(*problems)), problems)


def _problem(details: Any, model: type[BaseModel] | None) -> Problem:
    where, *way = details["loc"]
    if details["type"] == "json_invalid":
        return Problem("request", f"this is not JSON: {details['ctx']['error']} at character {way[0]}")
    if details["type"] == "value_error":
        return Problem("request", str(details["ctx"]["error"]), column=_column(way) or None)
    if where == "body" and not way:
        return Problem("request", "allowed: a JSON object, sent as Content-Type: application/json")
    what, found = describe_error(details, model if where == "body" else None, tuple(way))
    return Problem("request" if where == "body" else where, what, column=_column(way), found=found)


def _column(way: Sequence[str | int]) -> str:
    return ".".join(str(step + 1 if isinstance(step, int) else step) for step in way)


def _unavailable(_: Request, error: Exception) -> Response:
    log.error("the store cannot be used", error=str(error))
    return _answer(503, str(error), headers={"Retry-After": str(_RETRY_SECONDS)})


def _http(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself."""
    status = int(getattr(error, "status_code", 500))
    if status == 413:
        return too_large()
    words = {
        400: "the body cannot be read as JSON in UTF-8",
        404: f"there is nothing at {request.url.path}; /v1/openapi.json lists what there is",
        405: f"{request.method} is not for {request.url.path}; /v1/openapi.json lists the methods",
    }
    return _answer(status, words[status], headers=getattr(error, "headers", None))


def _unforeseen(request: Request, error: Exception) -> Response:
    log.error("a request failed", method=request.method, path=request.url.path, exc_info=error)
    return _answer(500, f"{type(error).__name__}; the daemon's log has the details")
