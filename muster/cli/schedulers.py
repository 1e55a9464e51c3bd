"""`muster schedulers`: what schedulers are made of."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import flags
from muster.cli.console import as_wide_as_terminal

if TYPE_CHECKING:
    from muster.schedulers.presets import Preset
    from muster.schedulers.registry import PartInfo, Setting

LEAST_ROOM = 20
"""For a sentence, however narrow the terminal is."""
SENTENCE_AT = 24
"""The column of the terminal where sentences begin."""
WIDEST = 120


def schedulers(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Part or preset to show (default: list all).")
    ] = None,
    as_json: flags.Json = False,
) -> None:
    """List the parts and presets of schedulers, or show one with its settings.

    Example: muster schedulers las
    """
    from muster.schedulers.registry import (
        composed_settings,
        parts,
        preset_settings,
        presets,
        settings_of_whole,
    )

    if name is None:
        found, named, of_whole = parts(), presets(), composed_settings()
    else:
        found, named = _only(name, parts(preset_settings(name)), presets())
        of_whole = settings_of_whole(name)
    if as_json:
        from muster.formatting import as_json_text

        content: dict[str, Any] = {
            "parts": [asdict(part) for part in found],
            "presets": [asdict(preset) for preset in named],
            "settings_of_all": [asdict(setting) for setting in of_whole],
        }
        print(as_json_text(_without_infinity(content)), end="")
    elif name is None:
        _print_list(found, named)
    else:
        for preset in named:
            print(f"{preset.name} = {preset.parts}\n{preset.sentence}\n")
        for part in found:
            _print_part(part)
        if of_whole:
            print("Settings of the whole scheduler:")
            _print_settings(of_whole)


def _only(name: str, parts: list[PartInfo], presets: list[Preset]) -> tuple[list[PartInfo], list[Preset]]:
    """The presets and parts that a name is made of."""
    from muster.problems import InputError, Problem, did_you_mean, with_hint

    named = [preset for preset in presets if preset.name == name.partition("+")[0]]
    searched = [word for preset in named for word in preset.parts.split("+")]
    searched += [word for word in name.split("+") if word not in {preset.name for preset in named}]
    known = {part.name: part for part in parts}
    problems = []
    for word in searched:
        if word not in known:
            names = [*known, *(preset.name for preset in presets)]
            hint = did_you_mean(word, names) or "muster schedulers lists what there is"
            problems.append(Problem("NAME", with_hint("no such part or preset", hint), found=word))
    if problems:
        raise InputError(*problems)
    return [known[word] for word in dict.fromkeys(searched)], named


def _print_list(parts: list[PartInfo], presets: list[Preset]) -> None:
    """Under each slot its parts: name and sentence, a long name on a line of its own."""
    from rich.console import Console

    by_slot: dict[str, list[tuple[str, str]]] = {}
    for part in parts:
        by_slot.setdefault(part.slot, []).append((part.name, part.sentence))
    by_slot["preset"] = [(preset.name, preset.sentence) for preset in presets]
    room = max(min(as_wide_as_terminal(Console()).width, WIDEST) - SENTENCE_AT, LEAST_ROOM)
    indent = " " * SENTENCE_AT
    for slot, rows in by_slot.items():
        print(slot)
        for name, sentence in rows:
            start = f"  {name}".ljust(SENTENCE_AT)
            if not start.endswith("  "):
                start += f"\n{indent}"
            print(start + f"\n{indent}".join(textwrap.wrap(sentence, room)))
        print()
    print("A scheduler is ORDER+ALLOCATION+PLACEMENT, all but the order optional, or a preset.")
    print("Settings of one: muster schedulers NAME")


def _print_part(part: PartInfo) -> None:
    print(f"{part.name} ({part.slot})\n{part.sentence}")
    if part.needs:
        print(f"It needs to know: {', '.join(part.needs)}.")
    _print_settings(part.settings)
    print()


def _print_settings(settings: tuple[Setting, ...] | list[Setting]) -> None:
    for setting in settings:
        if setting.default is None:
            shown = f"{setting.name} ({setting.type_name}; default: the order's habit)"
        else:
            shown = f"{setting.name}={setting.default} ({setting.type_name})"
        print(f"  {shown}: {setting.sentence}")


def _without_infinity(value: Any) -> Any:
    """JSON has no infinity: as text."""
    if isinstance(value, dict):
        return {key: _without_infinity(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinity(item) for item in value]
    return str(value) if value in (float("inf"), float("-inf")) else value
