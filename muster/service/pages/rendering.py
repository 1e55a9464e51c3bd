"""From a template to an answer that a browser trusts with nothing but what comes from this daemon."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import jinja2
from fastapi import Response
from fastapi.responses import HTMLResponse
from markupsafe import Markup, escape

import muster
from muster.formatting import counted, duration, gpus, number, percent, printable, thousandths
from muster.palette import DARK, LIGHT
from muster.service.shown import gpus_of, state_since

_FOLDER = Path(__file__).parent
_STATIC = {
    path.name: path.read_bytes() for path in (_FOLDER / "static").iterdir() if path.suffix in (".js", ".css")
}
_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_KEPT = "public, max-age=31536000, immutable"
"""Addresses of these files have the version in them."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
COLOURS = 6
"""That can be distinguished: the classes `c1` to `c6` of the style sheet."""
_MOST_NODES = 4096
"""Whose GPUs are kept as they were shown last; a node of eight takes about 2 KB."""
_COMMAND = re.compile(r"`(muster [^`\n]*)`")


@dataclass(frozen=True)
class Body:
    """What all who see the same see of a page: all but its frame, which names the viewer."""

    title: str
    markup: Markup
    refreshed: bytes
    """What a page that is open gets: all who have it open get the same."""
    tag: str
    """The same for the same title and markup."""


def body(template: str, title: str, shown: Mapping[str, Any]) -> Body:
    """The body of a page, of its template."""
    markup = Markup(_TEMPLATES.get_template(template).render(shown))
    refreshed = _TEMPLATES.get_template("refreshed.html.j2").render(title=title, body=markup).encode()
    content = muster.__version__.encode() + refreshed
    return Body(title, markup, refreshed, hashlib.blake2b(content, digest_size=16).hexdigest())


class GpuCell(NamedTuple):
    """One GPU of the map."""

    gpu: int
    job: int | None
    """Which is first there, as far as the viewer may see it."""
    busy: bool
    colour: str
    words: str


@lru_cache(maxsize=_MOST_NODES)
def cells(of_node: tuple[GpuCell, ...]) -> Markup:
    """The GPUs of a node; of most nodes nothing changes from one body of the map to the next."""
    return Markup(_TEMPLATES.get_template("cells.html.j2").render(cells=of_node))


def page(
    template: str, shown: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] = _HEADERS
) -> HTMLResponse:
    """A page that is a template of its own."""
    return HTMLResponse(_TEMPLATES.get_template(template).render(shown), status, headers=headers)


def framed(found: Body, frame: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """A body within its frame."""
    return page("frame.html.j2", {**frame, "title": found.title, "body": found.markup}, status)


def refreshed(found: Body, known: str | None) -> Response:
    """A body alone, for a page that is open; without it where the page has it already."""
    headers = _HEADERS | {"ETag": f'"{found.tag}"'}
    if known is not None and known.strip() == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return HTMLResponse(found.refreshed, headers=headers)


def static_file(name: str) -> Response | None:
    """A script or a style sheet; None: there is none of this name."""
    if name == "colours.css":
        data, suffix = _colours().encode(), ".css"
    elif name in _STATIC:
        data, suffix = _STATIC[name], Path(name).suffix
    else:
        return None
    return Response(data, headers=_HEADERS | {"Cache-Control": _KEPT, "Content-Type": _TYPES[suffix]})


def _colours() -> str:
    """The colours of all pages and charts, as variables."""
    light, dark = (
        " ".join(f"--{role}: {colour};" for role, colour in colours.items()) for colours in (LIGHT, DARK)
    )
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def moment(unix_seconds: float) -> str:
    """A time for people and machines: `2026-11-23 02:30:36 UTC`."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def colour_class(value: int | str) -> str:
    """The same colour for the same value, from a few that can be distinguished; jobs in a row differ."""
    number = (
        value if isinstance(value, int) else sum(ord(letter) * (at + 1) for at, letter in enumerate(value))
    )
    return f"c{number % COLOURS + 1}"


def _readable(value: Any) -> Any:
    """A text of a user cannot turn the direction of what stands beside it."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def with_commands(text: str | None) -> Markup:
    """A text of the daemon with the commands that it names between backticks as code; all else in it stays text."""
    return Markup(_COMMAND.sub(r"<code>\1</code>", str(escape(printable(text or "")))))


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    finalize=_readable,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
_TEMPLATES.globals |= {"version": muster.__version__}
_TEMPLATES.filters |= {
    "amount": thousandths,
    "cells": cells,
    "colour": colour_class,
    "commands": with_commands,
    "counted": counted,
    "duration": duration,
    "gpus": gpus,
    "gpus_of": gpus_of,
    "moment": moment,
    "number": number,
    "percent": percent,
    "since": state_since,
    "query": lambda values: urlencode(values, doseq=True),
}
