"""Flags that several commands share, and how their text becomes settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from muster.problems import InputError, Problem

TraceFile = Annotated[
    Path, typer.Argument(metavar="TRACE", help="Trace file: CSV or Parquet; plain, gzip, xz or zst.")
]
ClusterName = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="CLUSTER",
        help="Shipped cluster (philly), nodes (16x8gpu,24cpu,500gb) or a cluster file (.toml).",
    ),
]
Clusters = Annotated[
    list[str],
    typer.Option(
        "--cluster",
        metavar="CLUSTER",
        help="Shipped cluster (philly), nodes (16x8gpu,24cpu,500gb) or a cluster file (.toml); repeatable.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--map",
        metavar="NAME=COLUMN,...",
        help="Columns of a table of any form, as submit=at,duration=run (default: the native names).",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Setting of the scheduler; repeatable (default: as muster schedulers NAME shows).",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Random seed.")]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace the output if it exists; a folder only if it holds nothing but such output "
        "(default: refuse).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """`key=value` as a mapping."""
    problems = []
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not key or not equals:
            what = "allowed: KEY=VALUE, for example --set quantum_seconds=60"
            problems.append(Problem("--set", what, found=pair))
        elif key in settings:
            problems.append(Problem("--set", f"{key} is set twice", found=pair))
        settings[key] = value
    if problems:
        raise InputError(*problems)
    return settings


def script_of(command: Sequence[str]) -> str:
    """What a command is mostly called by: its script, else its program."""
    script = next((word for word in command if word.endswith((".py", ".sh"))), command[0])
    return Path(script).stem or script


def gb_of(flag: str, text: str) -> float:
    """A flag's memory in GB."""
    from muster.units import parse_gb

    try:
        return parse_gb(text)
    except ValueError as error:
        raise InputError(Problem(flag, str(error), found=text)) from None


def positive_seconds_of(flag: str, text: str) -> float:
    """A flag's time in seconds; 0 and infinity are refused."""
    from muster.units import seconds_of

    seconds = seconds_of(flag, text)
    if not 0 < seconds < float("inf"):
        raise InputError(Problem(flag, "allowed: a time above 0", found=text))
    return seconds
