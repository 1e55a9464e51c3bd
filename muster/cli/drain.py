"""`muster drain`: take a machine out of use."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli import flags


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
    from muster.cli.runs import as_json_text
    from muster.cli.service_view import ranges, unsure_if_interrupted
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
