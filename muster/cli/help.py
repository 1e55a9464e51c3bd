"""How `--help` looks: commands under headings, and of a command with many flags those that most people need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

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

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """As Typer's, but an option for one value that is given twice is refused: the first would be lost."""
        *_, order = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(order).items():
            takes_one = isinstance(option, typer.core.TyperOption) and not (option.multiple or option.is_flag)
            if times > 1 and takes_one:
                ctx.fail(f"{option.opts[0]} is given twice; it takes one value")
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """As Typer's, with the braces around an argument only where they group alternatives."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece if "|" in piece else piece.replace("{", "").replace("}", "") for piece in pieces]

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Arguments, options, and where asked for the rarely needed ones."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            heading = getattr(parameter, "rich_help_panel", None) or "Options"
            if isinstance(parameter, typer.core.TyperArgument):
                # Its name says what it is; `<path>` says nothing more.
                heading, record = "Arguments", (record[0].partition(" <")[0], record[1])
            sections.setdefault(heading, []).append(record)
        rare = sections.pop(RARELY_NEEDED, [])
        if ctx.meta.get(RARELY_NEEDED):
            sections[RARELY_NEEDED] = rare
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[RARELY_NEEDED] = True
        print(ctx.get_help())
        raise typer.Exit


def help_all(sentence: str) -> Any:
    """The option that shows the rarely needed flags too, with its sentence."""
    return typer.Option("--help-all", help=sentence, callback=_show_all, is_eager=True)
