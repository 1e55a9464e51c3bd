"""`muster schedulers`: what there is, with its settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from muster.problems import InputError
from muster.schedulers.registry import build, parts, presets

from .conftest import Outcome

Muster = Callable[..., Outcome]


def test_every_part_and_preset_is_listed_with_its_sentence(muster: Muster) -> None:
    listed = json.loads(muster("schedulers", "--json").out)
    assert [(part["name"], part["sentence"]) for part in listed["parts"]] == [
        (part.name, part.sentence) for part in parts()
    ]
    assert [preset["name"] for preset in listed["presets"]] == [preset.name for preset in presets()]
    names = [(part.slot, part.name) for part in parts()]
    assert len(names) == len(set(names))


def test_the_list_fits_80_columns_and_breaks_no_name(muster: Muster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = muster("schedulers").out.splitlines()
    assert max(map(len, lines[:-2])) <= 80
    text = " ".join(" ".join(lines).split())
    listed = [(part.name, part.sentence) for part in parts()]
    for name, sentence in listed + [(preset.name, preset.sentence) for preset in presets()]:
        assert f" {name} {sentence} " in text


def test_one_is_shown_with_its_settings_and_defaults(muster: Muster) -> None:
    shown = muster("schedulers", "las+spread")
    assert shown.status == 0
    assert "las (queue_order)" in shown.out
    assert "spread (placement)" in shown.out
    assert "quantum_seconds=300.0 (float): " in shown.out
    assert "promote_after_seconds=inf (float): " in shown.out


def test_a_preset_is_shown_with_its_parts(muster: Muster) -> None:
    preset = presets()[0]
    shown = muster("schedulers", preset.name)
    assert f"{preset.name} = {preset.parts}\n" in shown.out


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("slurm", "  weight_age=0.0 (float): PriorityWeightAge"),
        ("multifactor", "  weight_age=1000.0 (float): PriorityWeightAge"),
        ("dally-plus", "  quantum_seconds=300.0 (float): "),
        ("dally-plus", "  thresholds=(7200.0, 14400.0, 28800.0, "),
        ("slurm-like", "  preemptive=False (bool): "),
        ("las", "  preemptive (bool; default: the order's habit): "),
    ],
)
def test_a_preset_shows_its_settings_and_not_its_parts_ones(muster: Muster, name: str, line: str) -> None:
    setting = line.partition("=")[0]
    shown = [one for one in muster("schedulers", name).out.splitlines() if one.startswith(setting)]
    assert len(shown) == 1
    assert shown[0].startswith(line)


ALL = ["preemptive", "strict", "promote_after_seconds", "promote_for_good", "lease_seconds", "migrate"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, ALL) for name in ("las", "tune", "slurm-like", "gittins+joint")),
        ("dally", ["promote_after_seconds", "migrate"]),
        *((name, []) for name in ("slurm", "fifo+easy", "easy", "smd", "gandiva")),
    ],
)
def test_a_setting_of_the_whole_is_shown_where_it_is_taken(
    muster: Muster, name: str, settings: list[str]
) -> None:
    text = muster("schedulers", name).out.partition("\nSettings of the whole scheduler:\n")[2]
    assert re.findall(r"^  (\w+)", text, re.MULTILINE) == settings
    listed = json.loads(muster("schedulers", name, "--json").out)["settings_of_all"]
    assert [one["name"] for one in listed] == settings


def test_an_unknown_name_gets_the_nearest_as_a_hint(muster: Muster) -> None:
    refused = muster("schedulers", "lass")
    assert refused.status == 2
    assert "found 'lass'; no such part or preset. Hint: did you mean las" in refused.err


@pytest.mark.parametrize("name", ["las+", "+las", "las++tune", "", "dally+ "])
def test_a_part_without_a_name_is_missing(name: str) -> None:
    said = f"--scheduler: found {name!r}; a part is missing; allowed: parts joined by +, as las+tune"
    with pytest.raises(InputError, match=re.escape(said)):
        build(name)


@pytest.mark.parametrize("width", ["0", "10", "24"])
def test_a_terminal_of_any_width_gets_the_list(
    muster: Muster, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    shown = muster("schedulers")
    assert shown.status == 0
    assert shown.out.endswith("Settings of one: muster schedulers NAME\n")
