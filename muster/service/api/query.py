"""No parameter of an address is ignored: a route has it, or the request is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel

from muster.problems import InputError, Problem, did_you_mean, with_hint


async def check_query(request: Request) -> None:
    """InputError if a parameter is none of the route's, or stands twice where only one value counts."""
    if not request.query_params:
        return
    known = dict(_parameters(request.scope["route"]))
    problems = []
    for name in request.query_params:
        values = request.query_params.getlist(name)
        if name not in known:
            what = f"there is no such parameter; allowed: {', '.join(sorted(known)) or 'none'}"
            problems.append(_problem(name, with_hint(what, did_you_mean(name, known)), values[0]))
        elif len(values) > 1 and not _takes_several(known[name]):
            problems.append(_problem(name, "allowed: once", values[1]))
    if problems:
        raise InputError(*problems)


def _problem(name: str, what: str, found: str) -> Problem:
    return Problem("query", what, column=name, found=found)


def _parameters(route: APIRoute) -> Iterator[tuple[str, Any]]:
    """What may stand behind the `?`, with its type; the fields of a model are parameters of their own."""
    for field in route.dependant.query_params:
        kind = field.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from ((name, inner.annotation) for name, inner in kind.model_fields.items())
        else:
            yield field.alias, kind


def _takes_several(kind: Any) -> bool:
    return any(get_origin(one) is list for one in (kind, *get_args(kind)))
