"""`muster top`: nodes and queue in the terminal, live."""

from __future__ import annotations

import shutil
import string
import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from muster.service.client import Client

_COLOURS = ("blue", "yellow", "green", "magenta", "cyan", "red")
_OTHERS = "bright_black"
_MOST_NODES = 64
_LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits
_NO_LETTER = "#"
_LEAST_JOBS, _OTHER_LINES = 5, 10
"""However many nodes there are, so many jobs are shown; lines of headings and of notices about the queue."""
_LIVING = ("running", "queued", "held")
Seen = dict[str, Any]


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Show it once (default: again and again until interrupted).")
    ] = False,
    as_json: flags.Json = False,
) -> None:
    """Show each node's GPUs, what is held, and the queue, again and again until interrupted.

    A letter stands for a job, on each GPU that it holds and in the list of jobs: the same letter, the same job.
    A # is a job for which a-z, A-Z and 0-9 do not suffice, a ? one of another user.

    Example: muster top
    """
    from muster.cli.service_view import show, watch_live
    from muster.formatting import as_json_text
    from muster.service.client import Client

    if not once and not as_json:
        watch_live(_look, _shown)
        return
    with Client.of_environment() as client:
        seen = _look(client)
    if as_json:
        print(as_json_text(seen), end="")
    else:
        show(*_shown(seen))


def _look(client: Client) -> Seen:
    found = client.get("/v1/nodes")
    return {
        "nodes": found["nodes"],
        "notices": found.get("notices", []),
        "queue": client.get("/v1/queue"),
    }


def _shown(seen: Seen) -> list[Any]:
    from muster.cli.service_view import job_table
    from muster.formatting import amount_of, counted, gpus

    nodes, queue = seen["nodes"], seen["queue"]
    counts = queue["counts"]
    held, whole = (sum(node[name] for node in nodes) for name in ("held_gpus", "gpus"))
    jobs_now = f"{counts['running']:,} running, {counts['queued']:,} queued"
    line = f"{amount_of('gpus', held)} of {gpus(whole)} held; {jobs_now}."
    hidden = len(nodes) - _MOST_NODES
    more = [f"{counted(hidden, 'more node')}: muster nodes lists them."] if hidden > 0 else []
    letters = _letters(nodes[:_MOST_NODES])
    shown = queue["jobs"][: _jobs_that_fit(min(len(nodes), _MOST_NODES), seen["notices"])]
    jobs: list[Any] = [job_table(shown, time.time(), letters)] if shown else []
    if left := _left_out(queue, len(shown)):
        jobs.append(left)
    table = _node_table(nodes[:_MOST_NODES], letters)
    return [line, *queue["notices"], table, *more, *seen["notices"], *jobs]


def _left_out(queue: Seen, shown: int) -> str:
    """How many living jobs are not shown; empty for none.

    The answer has the first ones of each state that the caller may see. Where it is cut, its counts say how many
    there are, of all users.
    """
    from muster.formatting import counted

    every, whose = len(queue["jobs"]), ""
    if queue["more"]:
        every, whose = sum(queue["counts"][state] for state in _LIVING), " of all users"
    return f"{counted(every - shown, 'more job')}{whose}: muster queue lists them." if every > shown else ""


def _jobs_that_fit(nodes: int, notices: Sequence[str]) -> int:
    """How many jobs a screen has room for below its nodes and what is noticed of them."""
    columns, lines = shutil.get_terminal_size()
    wrapped = sum(len(textwrap.wrap(notice, columns)) for notice in notices)
    return max(_LEAST_JOBS, lines - nodes - wrapped - _OTHER_LINES)


def _letters(nodes: Sequence[Mapping[str, Any]]) -> dict[int, Text]:
    """The letter of each job that a node shows, in their order."""
    from rich.text import Text

    jobs = sorted({job for node in nodes for held in node["gpu_jobs"] for job in held if job is not None})
    return {
        job: Text(
            _LETTERS[at] if at < len(_LETTERS) else _NO_LETTER,
            _COLOURS[at % len(_COLOURS)] if at < len(_LETTERS) else _OTHERS,
        )
        for at, job in enumerate(jobs)
    }


def _node_table(nodes: Sequence[Mapping[str, Any]], letters: Mapping[int, Text]) -> Table:
    from muster.cli.service_view import node_with_state, plain_table
    from muster.formatting import number

    table = plain_table()
    table.add_column("node", no_wrap=True, overflow="ellipsis", max_width=20)
    table.add_column("GPUs", no_wrap=True)
    for heading in ("CPUs held", "GB held"):
        table.add_column(heading, justify="right", no_wrap=True)
    for node in nodes:
        table.add_row(
            node_with_state(node),
            _gpus(node, letters),
            *(f"{number(node[f'held_{what}'])} of {number(node[what])}" for what in ("cpus", "memory_gb")),
        )
    return table


def _gpus(node: Mapping[str, Any], letters: Mapping[int, Text]) -> Text:
    """A letter for each GPU: `.` where it is free, `?` where another user's job has it."""
    from rich.text import Text

    shown = Text()
    for jobs in node["gpu_jobs"]:
        known = [job for job in jobs if job is not None]
        if known:
            shown.append_text(letters[known[0]])
        else:
            shown.append("?" if jobs else ".", style=_OTHERS)
    return shown
