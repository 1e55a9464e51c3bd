"""`muster top`: nodes and queue in the terminal, live."""

from __future__ import annotations

import time
from collections.abc import Mapping
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
Seen = dict[str, Any]


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Show it once (default: again and again until interrupted).")
    ] = False,
    as_json: flags.Json = False,
) -> None:
    """Show each node's GPUs, what is held, and the queue, again and again until interrupted.

    A letter stands for a job on each GPU that it holds: the same letter, the same job.

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
    return {"nodes": client.get("/v1/nodes")["nodes"], "queue": client.get("/v1/queue")}


def _shown(seen: Seen) -> list[Any]:
    from muster.cli.service_view import job_table
    from muster.formatting import gpus

    nodes, queue = seen["nodes"], seen["queue"]
    counts = queue["counts"]
    held, whole = (sum(node[name] for node in nodes) for name in ("held_gpus", "gpus"))
    line = f"{held:g} of {gpus(whole)} held; {counts['running']:,} running, {counts['queued']:,} queued."
    hidden = len(nodes) - _MOST_NODES
    more = (
        [f"{hidden:,} more {'node' if hidden == 1 else 'nodes'}: muster nodes lists them."]
        if hidden > 0
        else []
    )
    jobs = [job_table(queue["jobs"], time.time())] if queue["jobs"] else []
    return [line, *queue["notices"], _node_table(nodes[:_MOST_NODES]), *more, *jobs]


def _node_table(nodes: list[Mapping[str, Any]]) -> Table:
    from muster.cli.service_view import node_with_state, plain_table

    table = plain_table()
    table.add_column("node", no_wrap=True, overflow="ellipsis", max_width=20)
    table.add_column("GPUs", no_wrap=True)
    for heading in ("CPUs held", "GB held"):
        table.add_column(heading, justify="right", no_wrap=True)
    for node in nodes:
        table.add_row(
            node_with_state(node),
            _gpus(node),
            *(f"{node[f'held_{what}']:.4g} of {node[what]:.4g}" for what in ("cpus", "memory_gb")),
        )
    return table


def _gpus(node: Mapping[str, Any]) -> Text:
    """A letter for each GPU: `.` where it is free, `?` where another user's job has it."""
    from rich.text import Text

    shown = Text()
    for jobs in node["gpu_jobs"]:
        known = [job for job in jobs if job is not None]
        if known:
            shown.append(chr(ord("a") + known[0] % 26), style=_COLOURS[known[0] % len(_COLOURS)])
        else:
            shown.append("?" if jobs else ".", style=_OTHERS)
    return shown
