"""`muster queue`: who holds what since when, and why the others wait."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags

if TYPE_CHECKING:
    from muster.service.client import Client

_STATES = ("running", "queued", "held")
_SHOWN = 50
"""Waiting jobs, where not all are asked for."""
_PAGE = 1000
_BETWEEN_SECONDS = 2.0

Queue = dict[str, Any]


def queue(
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only these, as completed, failed, cancelled; repeatable."),
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Only his jobs.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this name.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, however many.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again and again, until interrupted.")] = False,
    as_json: flags.Json = False,
) -> None:
    """Show who holds what since when, and why the others wait.

    Example: muster queue --watch
    """
    from muster.cli.runs import as_json_text
    from muster.cli.service_view import show
    from muster.service.client import Client

    with Client.of_environment() as client:

        def look() -> Queue:
            return _queue(client, tuple(state or _STATES), user, name, every)

        if as_json:
            print(as_json_text(look()), end="")
        elif watch:
            with suppress(KeyboardInterrupt):
                _watch(look)
        else:
            show(*_shown(look()))


def _queue(client: Client, states: tuple[str, ...], user: str | None, name: str | None, every: bool) -> Queue:
    """Jobs by state, whether there are more of them, and how many there are of all users."""
    from muster.cli.service_view import every_job

    jobs: list[Any] = []
    more = False
    for state in states:
        chosen = {"state": state, "user": user, "name": name}
        if every:
            jobs += every_job(client, **chosen)
            continue
        page = client.get("/v1/jobs", **chosen, limit=_PAGE if state == "running" else _SHOWN)
        jobs += page["jobs"]
        more |= page["next"] is not None
    return {"jobs": jobs, "more": more, "counts": client.get("/v1/jobs", limit=1)["counts"]}


def _shown(queue: Queue) -> list[Any]:
    from muster.cli.service_view import job_table

    told = [f"{count:,} {state}" for state, count in queue["counts"].items() if count]
    line = f"{', '.join(told) or 'No job has been submitted yet'}."
    if not queue["jobs"]:
        return [line]
    more = " The first ones of them are shown; --all shows all." if queue["more"] else ""
    return [job_table(queue["jobs"], time.time()), line + more]


def _watch(look: Any) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    with Live(console=Console(highlight=False, markup=False), auto_refresh=False, screen=True) as live:
        while True:
            live.update(Group(*_shown(look())), refresh=True)
            time.sleep(_BETWEEN_SECONDS)
