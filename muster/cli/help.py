"""How `--help` looks: commands under headings, and of a command with many flags those that most people need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
import typer.core

RARELY_NEEDED = "More options"
"""The panel of flags that `--help` leaves to `--help-all`."""


def sections_of(headings: Sequence[tuple[str, Mapping[str, str]]]) -> type[typer.core.TyperGroup]:
    """A group whose `--help` shows the commands, each with its sentence, under their headings."""

    class Sections(typer.core.TyperGroup):
        def format_commands(self, _: object, formatter: Any) -> None:
            for heading, commands in headings:
                with formatter.section(heading):
                    formatter.write_dl(list(commands.items()))

    return Sections


class Command(typer.core.TyperCommand):
    """A command whose rarely needed flags are shown by `--help-all` alone."""

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Arguments, options, and where the rest is."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                heading = "Arguments" if parameter.param_type_name == "argument" else "Options"
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or heading, []).append(record)
        rare = sections.pop(RARELY_NEEDED, [])
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
        if rare and ctx.meta.get(RARELY_NEEDED):
            with formatter.section(RARELY_NEEDED):
                formatter.write_dl(rare)


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[RARELY_NEEDED] = True
        print(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all", help="Also: network, failures, restarts, own models.", callback=_show_all, is_eager=True
    ),
]
