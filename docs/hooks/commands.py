"""The page of the commands, from the command line itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import typer
import typer.core
from tables import markdown_table

from muster.cli.app import RUNNING, TRYING, app_with

_SECTIONS = {
    "Commands that simulate, compare and measure": TRYING,
    "Commands of a running daemon": RUNNING,
}


def page() -> str:
    """The page in Markdown."""
    parts = [
        "# Commands",
        "Every command of `muster` with all its options, those of `--help-all` included. This page is generated from "
        "the command line. A command ends with status 0 if it succeeded, 1 if something outside the command line "
        "failed, 2 for a mistake in the command line or an input file, and 130 if you interrupted it. `--json` prints "
        "the result, or the error, as one JSON document.",
    ]
    for heading, names in _SECTIONS.items():
        parts.append(f"## {heading}")
        for name in names:
            group = typer.main.get_command(app_with(name))
            assert isinstance(group, typer.core.TyperGroup)
            for words, command in _leaves(f"muster {name}", group.commands[name]):
                parts += _command(words, command)
    return "\n\n".join(parts) + "\n"


def _leaves(words: str, command: typer.core.TyperCommand) -> Iterator[tuple[str, typer.core.TyperCommand]]:
    """A command, or the commands below it."""
    if isinstance(command, typer.core.TyperGroup):
        for name, below in command.commands.items():
            yield from _leaves(f"{words} {name}", below)
    else:
        yield words, command


def _command(words: str, command: typer.core.TyperCommand) -> list[str]:
    """What a command does, its usage, arguments and options."""
    context = typer.Context(command, info_name=words)
    usage = " ".join(command.collect_usage_pieces(context))
    text, _, example = inspect.cleandoc(command.help or "").partition("Example:")
    parts = [f"### {words}", " ".join(text.split())]
    block = [f"{words} {usage}"] + ([f"# for example\n{' '.join(example.split())}"] if example else [])
    parts.append("```text\n" + "\n".join(block) + "\n```")
    rows = [
        _row(record) for parameter in command.get_params(context) if (record := _record(parameter, context))
    ]
    parts.append(markdown_table(("Argument or option", "Meaning"), rows))
    return parts


def _record(parameter: object, context: typer.Context) -> tuple[str, str] | None:
    """Name and help of a parameter; None if help leaves it out."""
    found: tuple[str, str] | None = parameter.get_help_record(context)  # type: ignore[attr-defined]
    return found


def _row(record: tuple[str, str]) -> tuple[str, str]:
    name, text = record
    return f"`{name.partition(' <')[0]}`", " ".join(text.split())
