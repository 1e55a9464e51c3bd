"""`muster nodes` and `drain`: the machines, what of them is held, and taking one out of use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from muster.cli import flags


def nodes(as_json: flags.Json = False) -> None:
    """Show the machines and what of them is held.

    Example: muster nodes
    """
    from muster.cli.service_view import node_with_state, plain_table, show
    from muster.formatting import as_json_text
    from muster.service.client import Client

    with Client.of_environment() as client:
        found = client.get("/v1/nodes")
    if as_json:
        print(as_json_text(found), end="")
        return
    table = plain_table()
    table.add_column("node", no_wrap=True, overflow="ellipsis", max_width=24)
    table.add_column("GPU type", no_wrap=True, overflow="ellipsis", max_width=14)
    for heading in ("GPUs held", "CPUs held", "GB held"):
        table.add_column(heading, justify="right", no_wrap=True)
    busy_known = any(_busy(node) for node in found["nodes"])
    if busy_known:
        table.add_column("GPUs busy", justify="right", no_wrap=True)
    table.add_column("jobs", overflow="fold")
    for node in found["nodes"]:
        table.add_row(
            node_with_state(node),
            node["gpu_type"],
            *(_held(node, what) for what in ("gpus", "cpus", "memory_gb")),
            *([_busy(node)] if busy_known else []),
            _jobs(node),
        )
    show(table, *found.get("notices", ()))


def drain(
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="Name of the node; muster nodes lists the names.")
    ],
    undo: Annotated[bool, typer.Option("--undo", help="Use the node again.")] = False,
    as_json: flags.Json = False,
) -> None:
    """Start nothing on a machine any more; what runs there moves away.

    Example: muster drain node-3
    """
    from muster.cli.service_view import ranges, unsure_if_interrupted
    from muster.formatting import as_json_text
    from muster.service.client import Client, node_path

    with Client.of_environment() as client, unsure_if_interrupted("muster nodes shows it"):
        answer = client.post(node_path(node, "undrain" if undo else "drain"))
    if as_json:
        print(as_json_text(answer), end="")
    elif undo:
        print(f"Node {node} is used again.")
    else:
        jobs = answer["nodes"][0]["jobs"]
        moving = " Nothing runs there."
        if jobs:
            moving = f" Job {jobs[0]} moves away." if len(jobs) == 1 else f" Jobs {ranges(jobs)} move away."
        print(f"Nothing starts on node {node} any more.{moving}")


def _busy(node: Mapping[str, Any]) -> str:
    """How busy its GPUs are in the mean, by their driver; empty where that is not known."""
    known = [use["busy"] for use in node["gpu_use"] if use is not None and use["busy"] is not None]
    return f"{100 * sum(known) / len(known):.0f} %" if known else ""


def _held(node: Mapping[str, Any], what: str) -> str:
    """What Muster's jobs hold on a node, and what others hold there."""
    from muster.formatting import amount_of

    held, others, whole = (amount_of(what, node[f"{part}{what}"]) for part in ("held_", "others_", ""))
    return f"{held} + {others} others of {whole}" if node[f"others_{what}"] else f"{held} of {whole}"


def _jobs(node: Mapping[str, Any]) -> str:
    """The numbers of those that the caller may see, and how many others there are."""
    from muster.cli.service_view import ranges

    others = node["jobs_count"] - len(node["jobs"])
    shown = [ranges(node["jobs"])] if node["jobs"] else []
    return " and ".join([*shown, *([f"{others} of others"] if others else [])])
