"""Traces in: one file a format, each saying what it recognises and how it reads it.

A format is a module with `EXPECTED`, `recognise(content)` and `read(content)`; `FORMATS` names them in the
order in which they are tried. The native form comes first, so a native file is never taken for another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muster.problems import InputError, Problem
from muster.workload.traces import (
    acme,
    helios,
    hourly_pods,
    mapped,
    native,
    openb,
    pai,
    philly,
    sacct,
    spot_gpu,
    swf,
)
from muster.workload.traces.cleaning import Reading
from muster.workload.traces.content import Content, Document


@dataclass(frozen=True)
class Format:
    """How one form of trace is known and read."""

    expected: str
    """A sentence on what such a file has."""
    recognise: Callable[[Content], bool]
    read: Callable[[Content], Reading]


FORMATS: Mapping[str, Format] = {
    "native": Format(native.EXPECTED, native.recognise, native.read),
    "philly": Format(philly.EXPECTED, philly.recognise, philly.read),
    "helios": Format(helios.EXPECTED, helios.recognise, helios.read),
    "openb": Format(openb.EXPECTED, openb.recognise, openb.read),
    "acme": Format(acme.EXPECTED, acme.recognise, acme.read),
    "pai": Format(pai.EXPECTED, pai.recognise, pai.read),
    "spot-gpu": Format(spot_gpu.EXPECTED, spot_gpu.recognise, spot_gpu.read),
    "gpu-2026": Format(hourly_pods.EXPECTED, hourly_pods.recognise, hourly_pods.read),
    "swf": Format(swf.EXPECTED, swf.recognise, swf.read),
    "sacct": Format(sacct.EXPECTED, sacct.recognise, sacct.read),
}

KINDS = ("auto", *FORMATS, "csv")
"""What `read_trace` and `--from` accept; csv needs a mapping of columns."""


def read_content(content: Content, kind: str, mapping: Mapping[str, str] | None) -> Reading:
    """Reads a file as the kind asked for, or as what it is recognised to be; a mapping makes it csv."""
    where = content.where
    if kind not in KINDS:
        raise InputError(Problem("--from", f"allowed: one of {', '.join(KINDS)}", found=kind))
    if mapping is not None and kind not in ("auto", "csv"):
        raise InputError(Problem("--map", f"columns are mapped for csv only, not for {kind}"))
    if kind == "csv" or mapping is not None:
        if isinstance(content, Document):
            raise InputError(Problem(where, "this is JSON; allowed: a table to map its columns"))
        return mapped.read(content, mapping or {})
    if kind == "auto":
        return _recognised(content).read(content)
    chosen = FORMATS[kind]
    if not chosen.recognise(content):
        raise InputError(
            Problem(where, f"this is not {kind}: needed are {chosen.expected}; {_found(content)}")
        )
    return chosen.read(content)


def _recognised(content: Content) -> Format:
    for form in FORMATS.values():
        if form.recognise(content):
            return form
    if openb.recognise_nodes(content):
        what = (
            "this is a list of nodes, not of jobs; make a cluster of it: muster convert NODES -o cluster.toml"
        )
        raise InputError(Problem(content.where, what))
    what = (
        f"this is no trace that is known here; {_found(content)}; allowed: {', '.join(FORMATS)}{_nearest(content)}. "
        "Hint: name the columns of any other table: --map submit=COLUMN,gpus=COLUMN,duration=COLUMN"
    )
    raise InputError(Problem(content.where, what))


def _nearest(content: Content) -> str:
    """What a file needs of the form with which it shares most columns; empty where it shares fewer than two."""
    if isinstance(content, Document):
        return ""
    header = {name.casefold() for name in content.header}
    shared = {kind: len(header & _columns(form)) for kind, form in FORMATS.items()}
    kind = max(shared, key=lambda one: shared[one])
    return f"; nearest is {kind}: {FORMATS[kind].expected}" if shared[kind] > 1 else ""


def _columns(form: Format) -> set[str]:
    return {part.strip().casefold() for part in re.split(r"[,;=]|columns ", form.expected)}


def _found(content: Content) -> str:
    if isinstance(content, Document):
        return "found another JSON document"
    header = ", ".join(content.header)
    return f"found columns {header if len(header) <= 300 else header[:299] + '…'}"
