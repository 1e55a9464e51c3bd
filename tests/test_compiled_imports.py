"""Compiled files keep the import rules too: `lint-imports` reads .py files alone."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IMPORT = re.compile(r"^(?:from (muster[\w.]*) c?import|c?import (muster[\w.]*))", re.MULTILINE)
IMPORTS = re.compile(r"^(?:from [\w.]+ c?import (?:\([^)]*\)|[^\n]*)|c?import [^\n]*)", re.MULTILINE)
PURE = {"muster.schedulers": ("time", "random", "posix", "libc.time", "libc.stdlib", "libc.stdio")}
"""What compiled files of a room may not use."""


def layers(contract: str) -> list[set[str]]:
    """From top to bottom, the modules of each layer."""
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter")
    lines = rules[f"importlinter:contract:{contract}"]["layers"].split("\n")
    return [{name.strip(" ()") for name in line.split("|")} for line in lines if line.strip()]


def place(module: str, order: list[set[str]], prefix: str = "") -> int:
    """The layer of a module; -1: in none."""
    for at, names in enumerate(order):
        if any(f"{module}.".startswith(f"{prefix}{name}.") for name in names):
            return at
    return -1


def compiled_files() -> list[Path]:
    return sorted(path for kind in ("*.pyx", "*.pxd") for path in (ROOT / "muster").rglob(kind))


def imported(text: str) -> Iterator[str]:
    for match in IMPORT.finditer(text):
        yield match.group(1) or match.group(2)


def broken(module: str, text: str) -> list[str]:
    """The imports of a compiled module that go up, or to a neighbour."""
    found = []
    for other in imported(text):
        for contract, prefix in (("rooms", ""), ("schedulers", "muster.schedulers.")):
            order = layers(contract)
            mine, theirs = place(module, order, prefix), place(other, order, prefix)
            same = module.split(".")[: 2 + bool(prefix)] == other.split(".")[: 2 + bool(prefix)]
            if mine >= 0 and theirs >= 0 and not same and theirs <= mine:
                found.append(f"{module} imports {other}")
    return found


@pytest.mark.parametrize("path", compiled_files(), ids=lambda path: path.name)
def test_a_compiled_file_uses_what_is_under_it(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    assert broken(module, path.read_text()) == []
    for room, names in PURE.items():
        if module.startswith(f"{room}."):
            assert not re.search(
                rf"^(?:from|c?import) (?:{'|'.join(names)})\b", path.read_text(), re.MULTILINE
            )


def names_imported(text: str) -> set[str]:
    """What a compiled file calls the things that it imports."""
    found = re.findall(r"^from [\w.]+ c?import (\([^)]*\)|[^\n]*)", text, re.MULTILINE)
    parts = (part.partition("#")[0].strip() for names in found for part in names.strip("()").split(","))
    modules = re.findall(r"^c?import ([\w.]+)(?: as (\w+))?", text, re.MULTILINE)
    return {part.split(" as ")[-1] for part in parts if part} | {
        name or module.rpartition(".")[2] for module, name in modules
    }


@pytest.mark.parametrize("path", compiled_files(), ids=lambda path: path.name)
def test_a_compiled_file_uses_what_it_imports(path: Path) -> None:
    """ruff does this for .py files. What a .pxd imports, its .pyx may use."""
    text = path.read_text()
    used = re.sub(IMPORTS, "", text)
    if path.suffix == ".pxd" and path.with_suffix(".pyx").exists():
        used += path.with_suffix(".pyx").read_text()
    assert {name for name in names_imported(text) if not re.search(rf"\b{name}\b", used)} == set()
    assert max(map(len, text.split("\n"))) <= 120


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("muster.schedulers.composed_core", "from muster.runtime.lifecycle cimport Runtime"),
        ("muster.cluster.ledger_core", "from muster.speed.rates_core cimport Stages"),
        ("muster.schedulers.placement.rules_core", "from muster.schedulers.composed_core cimport Ranked"),
        ("muster.runtime.lifecycle", "import muster.simulation.engine"),
    ],
)
def test_a_planted_import_upwards_is_found(module: str, line: str) -> None:
    assert broken(module, f"cimport numpy\n{line}\n") != []
