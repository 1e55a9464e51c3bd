"""No body of a request is ignored: a route takes one, or it says nothing, or the request is refused."""

from __future__ import annotations

import json

from fastapi import Request

from muster.problems import InputError, Problem

_SHOWN_BYTES = 200


async def check_body(request: Request) -> None:
    """InputError if a body says something to a route that takes none; an empty object says nothing."""
    if request.scope["route"].body_field is not None or not _has_body(request):
        return
    body = (await request.body()).strip()
    if body and not _is_empty_object(body):
        what = f"{request.method} {request.url.path} takes no body; allowed: none, or {{}}"
        hint = "leave it out; /v1/openapi.json says what each route takes"
        found = body[:_SHOWN_BYTES].decode(errors="replace")
        raise InputError(Problem("request", f"{what}. Hint: {hint}", column="body", found=found))


def _has_body(request: Request) -> bool:
    """Whether its headers announce one."""
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _is_empty_object(body: bytes) -> bool:
    try:
        return bool(json.loads(body) == {})
    except (ValueError, RecursionError):
        return False
