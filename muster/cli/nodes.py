"""`muster nodes`: the machines, and what of them is held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.cli import flags


def nodes(as_json: flags.Json = False) -> None:
    """Show the machines and what of them is held.

    Example: muster nodes
    """
    from muster.cli.runs import as_json_text
    from muster.cli.service_view import plain_table, show
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
    table.add_column("jobs", overflow="fold")
    for node in found["nodes"]:
        table.add_row(
            node["name"] + (" (drained)" if node["drained"] else ""),
            node["gpu_type"],
            *(f"{node[f'held_{what}']:.4g} of {node[what]:.4g}" for what in ("gpus", "cpus", "memory_gb")),
            _jobs(node),
        )
    show(table)


def _jobs(node: Mapping[str, Any]) -> str:
    """The numbers of those that the caller may see, and how many others there are."""
    from muster.cli.service_view import ranges

    others = node["jobs_count"] - len(node["jobs"])
    shown = [ranges(node["jobs"])] if node["jobs"] else []
    return " and ".join([*shown, *([f"{others} of others"] if others else [])])
