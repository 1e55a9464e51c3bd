"""`muster logs`: what a job has written."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli import flags
from muster.cli.service_view import JobId

if TYPE_CHECKING:
    from muster.problems import Unable
    from muster.service.client import Client, OutputPart, PatientClient

_BETWEEN_SECONDS = 0.5
_ENDED = ("completed", "failed", "cancelled", "timed_out")


def logs(
    job: JobId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the output until the job ends.")
    ] = False,
    rank: Annotated[
        int, typer.Option(metavar="N", min=0, help="Number of the process whose output to print.")
    ] = 0,
    as_json: flags.Json = False,
) -> None:
    """Print what a job has written, of all its starts.

    Example: muster logs -f 17
    """
    from muster.formatting import as_json_text
    from muster.service.client import PatientClient

    with PatientClient() as client:
        pieces = _pieces(client, job, rank, follow)
        if as_json:
            text = b"".join(pieces).decode(errors="replace")
            print(as_json_text({"job_id": job, "rank": rank, "output": text}), end="")
            return
        written = 0
        # Ctrl-C is how following ends.
        with suppress(KeyboardInterrupt) if follow else nullcontext():
            for piece in pieces:
                written += sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
    if not written:
        print(f"Process {rank} of job {job} has written nothing so far.", file=sys.stderr)


def _pieces(client: PatientClient, job: int, rank: int, follow: bool) -> Iterator[bytes]:
    away = False

    def wait(why: Unable) -> None:
        nonlocal away
        if not follow:
            raise why
        if not away:
            print(f"{why}. Looking for it again.", file=sys.stderr)
        away = True
        time.sleep(_BETWEEN_SECONDS)

    def next_piece(daemon: Client) -> OutputPart:
        return daemon.output(job, rank, offset)

    offset = 0
    while True:
        piece = client.ask(next_piece, wait)
        if away:
            print("The daemon is back.", file=sys.stderr)
            away = False
        offset = piece.next_offset
        if piece.data:
            yield piece.data
        elif not follow or piece.state in _ENDED:
            return
        else:
            time.sleep(_BETWEEN_SECONDS)
