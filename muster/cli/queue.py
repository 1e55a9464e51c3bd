"""`muster queue`: which jobs hold what since when, and why the others wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags
from muster.problems import InputError, Problem

if TYPE_CHECKING:
    from muster.service.client import Client

_STATES = ("running", "queued", "held")
_ENDED = ("completed", "failed", "cancelled", "timed_out")

Queue = dict[str, Any]


def queue(
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help="State of the jobs to show, as completed or failed; repeatable (default: jobs "
            "that have not ended).",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="User whose jobs to show (default: all that you may see)."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the jobs to show (default: any name).")
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Show all jobs, also those that have ended, or all in the states of --state (default: the first "
            "ones, that have not ended).",
        ),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the queue again and again until interrupted.")
    ] = False,
    start: Annotated[
        bool,
        typer.Option(
            "--start",
            help="Show when each waiting job is expected to start, too, by simulations of the queue.",
        ),
    ] = False,
    draws: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=5,
            max=1000,
            help="Simulations for --start, each with other durations (default: 40, or at least 9 where 40 take "
            "more than 10 s).",
        ),
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """Show which jobs hold what since when, and why the others wait.

    Example: muster queue --watch
    """
    from muster.cli.service_view import show, watch_live
    from muster.formatting import as_json_text
    from muster.service.client import Client

    if draws is not None and not start:
        raise InputError(Problem("--draws", "allowed with --start only", found=draws))
    if start and watch:
        raise InputError(Problem("--start", "allowed without --watch: simulations take seconds"))
    states = list(dict.fromkeys(state or (_STATES + _ENDED if every else _STATES)))

    def look(client: Client) -> Queue:
        return _queue(client, states, user, name, every)

    if watch and not as_json:
        watch_live(look, _shown)
        return
    with Client.of_environment() as client:
        found = look(client)
        if start:
            _add_starts(client, found, draws)
    if as_json:
        print(as_json_text(found), end="")
    else:
        show(*_shown(found))


def _queue(client: Client, states: list[str], user: str | None, name: str | None, every: bool) -> Queue:
    """Jobs in the order of their states, whether there are more of them, and how many there are of all users."""
    from muster.cli.service_view import every_job
    from muster.service.client import Refusal

    chosen = {"state": states, "user": user, "name": name}
    try:
        queue: Queue = client.get("/v1/queue", **chosen)
    except Refusal as refusal:
        flags_of = [
            Problem(f"--{(problem.column or '').partition('.')[0]}", problem.what, found=problem.found)
            for problem in refusal.problems
        ]
        words = str(InputError(*flags_of)) if flags_of else refusal.message
        raise Refusal(refusal.http_status, words, flags_of) from None
    if every and queue["more"]:
        # Each job is looked at once: whatever it changes to meanwhile, it is neither missed nor shown twice.
        jobs = list(every_job(client, **chosen))
        queue |= {"jobs": sorted(jobs, key=lambda job: states.index(job["state"])), "more": False}
    return queue


def _add_starts(client: Client, queue: Queue, draws: int | None) -> None:
    """When each job that waits is expected to start, and what the simulations go by."""
    from muster.cli.starts import starts_of_queue

    waits = any(job["state"] == "queued" for job in queue["jobs"])
    found = starts_of_queue(client, draws) if waits else {"jobs": []}
    starts = {one["job_id"]: one["start"] for one in found.pop("jobs")}
    for job in queue["jobs"]:
        job["start"] = starts.get(job["job_id"])
    queue["simulated"] = found or None


def _shown(queue: Queue) -> list[Any]:
    from muster.cli.service_view import job_table

    counts = [f"{count:,} {state}" for state, count in queue["counts"].items() if count]
    line = f"{', '.join(counts) or 'No job has been submitted yet'}."
    if not queue["jobs"]:
        return [*queue["notices"], f"None of these; in all: {line}" if counts else line]
    more = " The first ones of them are shown; --all shows all." if queue["more"] else ""
    basis = []
    if queue.get("simulated"):
        from muster.cli.starts import basis_of

        simulated = queue["simulated"]
        whole = f"the median of {simulated['draws']:,} simulations, and 80 % of them"
        of_one = "of one simulation, as nothing has to be drawn"
        basis = [f"Starts: {of_one if simulated['draws'] == 1 else whole}. {basis_of(simulated)}"]
    return [*queue["notices"], job_table(queue["jobs"], time.time()), line + more, *basis]
