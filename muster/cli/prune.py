"""`muster prune`: forget what ended long ago."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from muster.cli import flags


def prune(
    before: Annotated[
        str,
        typer.Option(
            "--before", metavar="TIME", help="Least time since the end of a job to remove, as 30d or 12h."
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")
    ] = False,
    as_json: flags.Json = False,
) -> None:
    """Remove jobs that ended long ago, with their histories, output and checkpoints. Others are left alone.

    Example: muster prune --before 30d --dry-run
    """
    from muster.cli.app import Interrupted
    from muster.cli.failures import FAILED
    from muster.cli.service_view import moment
    from muster.formatting import as_json_text, counted
    from muster.service.client import Client

    asked = {"before": time.time() - _seconds(before), "dry_run": dry_run}
    total: dict[str, Any] = {"jobs": 0, "bytes": 0, "kept": []}
    after: int | None = 0
    try:
        with Client.of_environment() as client, _progress() as show:
            while after is not None:
                piece = client.post("/v1/jobs:prune", asked | {"after": after})
                total = {name: total[name] + piece[name] for name in total}
                after = piece["next"]
                show(counted(total["jobs"], "job"))
    except KeyboardInterrupt:
        what = f"{counted(total['jobs'], 'job')} at least pruned until then; the same command goes on"
        raise Interrupted(f"interrupted; {'nothing was pruned' if dry_run else what}") from None
    if as_json:
        print(as_json_text(total | asked), end="")
    else:
        gone = f"{counted(total['jobs'], 'job')} that ended before {moment(asked['before'])}"
        size = f"{_size(total['bytes'])} in their folders"
        print(f"{gone} would go, with {size}." if dry_run else f"Pruned {gone}, with {size}.")
        for kept in total["kept"]:
            print(f"Job {kept['job_id']} stays: {kept['message']}", file=sys.stderr)
    if total["kept"]:
        raise typer.Exit(FAILED)


def _seconds(before: str) -> float:
    """The time of --before in seconds; one without a unit is refused, as what is removed is gone for good."""
    from muster.problems import InputError, Problem
    from muster.units import seconds_of

    seconds = seconds_of("--before", before)
    if not before.strip()[-1].isalpha():
        raise InputError(Problem("--before", "allowed: a time with its unit, as 30d or 12h", found=before))
    return seconds


def _size(count: float) -> str:
    from muster.formatting import counted, three_figures

    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            return f"{three_figures(count / 1000**power)} {unit}"
    return counted(count, "byte")


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """How far it is, on a terminal."""
    from rich.console import Console

    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("...") as status:
        yield status.update
