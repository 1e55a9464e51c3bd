"""The page of parts, presets and their settings, from the registry of schedulers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import isinf
from typing import Any

from tables import markdown_table

from muster.schedulers.presets import Preset
from muster.schedulers.registry import Setting, composed_settings, parts, presets

_UNITS = {
    "_seconds": "s",
    "_leases": "leases",
    "_gpus": "GPUs",
    "_share": "share",
    "_hours": "h",
}
"""Units by the end of a setting's name."""

_TYPES = {
    "bool": "true or false",
    "int": "whole number",
    "float": "number",
    "tuple[float, ...]": "numbers, as 1,2,3",
    "dict[str, float]": "numbers by name, as a:1,b:2",
}


def page() -> str:
    """The page in Markdown."""
    parts_of_page = [
        "# Schedulers and settings",
        "The name of a scheduler is `ORDER+ALLOCATION+PLACEMENT`, all but the order optional, or a preset. "
        "`--set NAME=VALUE` changes a setting; `--set PART.NAME=VALUE` where two parts have one of this name. "
        "`muster schedulers NAME` prints what this page shows. It is generated from the registry of schedulers.",
        "## Presets",
        markdown_table(
            ("Preset", "Stands for", "Settings other than its parts' defaults", "What it is"),
            [
                (f"`{preset.name}`", f"`{preset.parts}`", _of_preset(preset), preset.sentence)
                for preset in presets()
            ],
        ),
        "## Settings of the whole scheduler",
        "A scheduler of an order, an allocation and a placement has all of these; one with delay timers only "
        "`promote_after_seconds` and `migrate`; one with a rule of backfill none.",
        _settings(composed_settings()),
    ]
    slot = ""
    for part in parts():
        if part.slot != slot:
            slot = part.slot
            parts_of_page.append(f"## {slot.replace('_', ' ').capitalize()}")
        parts_of_page += [f"### {part.name}", part.sentence]
        if part.needs:
            parts_of_page.append(f"It needs to know: {', '.join(part.needs)}.")
        if part.settings:
            parts_of_page.append(_settings(part.settings))
    return "\n\n".join(parts_of_page) + "\n"


def _settings(settings: Iterable[Setting]) -> str:
    rows = [
        (
            f"`{one.name}`",
            _TYPES.get(one.type_name, one.type_name),
            _unit(one.name),
            _default(one.default),
            one.sentence,
        )
        for one in settings
    ]
    return markdown_table(("Setting", "Type", "Unit", "Default", "Meaning"), rows)


def _of_preset(preset: Preset) -> str:
    return ", ".join(f"`{name}={value.replace(',', ', ')}`" for name, value in preset.settings.items())


def _unit(name: str) -> str:
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")


def _default(value: Any) -> str:
    if value is None:
        return "of the order"
    if isinstance(value, float) and isinf(value):
        return "none"
    return (
        f"`{value if isinstance(value, str) else json.dumps(value)}`" if value not in ("", (), {}) else "none"
    )
