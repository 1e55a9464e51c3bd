"""From a template to an answer that a browser trusts with nothing but what comes from this daemon."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from fastapi import Response
from fastapi.responses import HTMLResponse

import muster
from muster.formatting import counted, duration, gpus, number, percent, thousandths
from muster.palette import DARK, LIGHT

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
_COLOURS = 6


def page(template: str, shown: dict[str, Any], status: int = 200) -> HTMLResponse:
    """A page of a template."""
    return HTMLResponse(_TEMPLATES.get_template(template).render(shown), status, headers=_HEADERS)


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
    return f"c{number % _COLOURS + 1}"


_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
)
_TEMPLATES.globals |= {"version": muster.__version__}
_TEMPLATES.filters |= {
    "amount": thousandths,
    "colour": colour_class,
    "counted": counted,
    "duration": duration,
    "gpus": gpus,
    "moment": moment,
    "number": number,
    "percent": percent,
    "query": lambda values: urlencode(values, doseq=True),
}
