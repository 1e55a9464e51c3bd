"""`muster why`: why a job waits, or waited in a recorded run."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated

import typer

from muster.cli import flags


def why(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="Number of the job; with --record its id in the trace.")
    ],
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Answer from a run that simulate, compare or export wrote (default: ask the daemon).",
        ),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Explain why a job waits, which jobs are ahead, and when it may start; or why it waited in a recorded run.

    Example: muster why 17 --record muster-run
    """
    from muster.formatting import as_json_text

    answer, sentences = _live(job) if record is None else _recorded(record, job)
    if as_json:
        print(as_json_text(answer), end="")
    else:
        for sentence in sentences:
            print(textwrap.fill(sentence, 79))


def _live(job: str) -> tuple[dict[str, object], list[str]]:
    from muster.problems import InputError, Problem
    from muster.service.client import Client

    if not job.isascii() or not job.isdecimal() or int(job) < 1:
        hint = "allowed: a whole number from 1 on; jobs of a recorded run need --record DIR"
        raise InputError(Problem("JOB", hint, found=job))
    with Client.of_environment() as client:
        answer = client.get(f"/v1/jobs/{int(job)}/why")
    return answer, answer["sentences"]


def _recorded(folder: Path, job: str) -> tuple[dict[str, object], list[str]]:
    from muster.report.record import read_record
    from muster.runtime.waits import waits_of

    answer = waits_of(read_record(folder), job)
    return answer.to_dict(), list(answer.sentences())
