"""`muster why`: why a job waits or has what it has, or waited and had in a recorded run."""

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
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Moment of a recorded run at which the job ran, as 99h or in seconds (default: the beginning of the "
            "longest stretch in which it held the same).",
        ),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Explain why a job waits, which jobs are ahead, and when it may start; or what a running job would gain from more.

    With --record: why it waited in a recorded run, and what more would have brought while it ran.

    Example: muster why 17 --record muster-run
    """
    from muster.formatting import as_json_text, printable
    from muster.problems import InputError, Problem
    from muster.units import seconds_of

    if at is not None and record is None:
        raise InputError(Problem("--at", "allowed with --record only; the daemon answers of now", found=at))
    moment = None if at is None else seconds_of("--at", at)
    answer, sentences = _live(job) if record is None else _recorded(record, job, moment)
    if as_json:
        print(as_json_text(answer), end="")
    else:
        for sentence in sentences:
            print(printable(textwrap.fill(sentence, 79)))


def _live(job: str) -> tuple[dict[str, object], list[str]]:
    from muster.problems import InputError, Problem
    from muster.service.client import Client

    if not job.isascii() or not job.isdecimal() or int(job) < 1:
        hint = "allowed: a whole number from 1 on; jobs of a recorded run need --record DIR"
        raise InputError(Problem("JOB", hint, found=job))
    with Client.of_environment() as client:
        client.waiting_for = "The daemon simulates the queue; at most 5 seconds."
        answer = client.get(f"/v1/jobs/{int(job)}/why")
    return answer, list(answer["sentences"])


def _recorded(folder: Path, job: str, at: float | None) -> tuple[dict[str, object], list[str]]:
    from dataclasses import asdict

    from muster.inputs import knowledge_of
    from muster.problems import InputError
    from muster.report.record import read_record
    from muster.runtime.recorded_holding import holding_of, without_models
    from muster.runtime.waits import waits_of

    record = read_record(folder)
    answer = waits_of(record, job)
    try:
        known = knowledge_of(record.run.get("named") or {})
    except InputError as gone:
        return {**answer.to_dict(), "held": None}, [*answer.sentences(), without_models(gone)]
    held = holding_of(record, job, at, known)
    sentences = [*answer.sentences(), *(held.sentences if held else ())]
    return {**answer.to_dict(), "held": asdict(held) if held else None}, sentences
