"""The house around the code: who may import whom, the lock, the first commands."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import muster

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def locked(file_name: str) -> dict[str, Requirement]:
    """What a lock file pins, by name."""
    lines = (line.strip() for line in (ROOT / file_name).read_text().splitlines())
    pins = [Requirement(line) for line in lines if line and not line.startswith(("#", "-r"))]
    return {canonicalize_name(pin.name): pin for pin in pins}


def version_in(pin: Requirement) -> str:
    (specifier,) = pin.specifier
    assert specifier.operator == "=="
    return specifier.version


def import_rules(cwd: Path) -> subprocess.CompletedProcess[str]:
    """Checks the contracts of .importlinter on the package in a folder."""
    lint = str(Path(sys.executable).with_name("lint-imports"))
    command = [lint, "--config", str(ROOT / ".importlinter"), "--no-cache"]
    environment = os.environ | {"PYTHONPATH": str(cwd), "COLUMNS": "1000"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_rooms_use_only_the_rooms_under_them_and_schedulers_are_pure() -> None:
    done = import_rules(ROOT)
    assert done.returncode == 0, done.stdout


def test_each_import_rule_finds_a_planted_violation(tmp_path: Path) -> None:
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter")
    pure, reads_records = (
        rules[f"importlinter:contract:{name}"]["forbidden_modules"].split()
        for name in ("schedulers-are-pure", "report-reads-records")
    )
    planted = {
        "muster.cluster.ledger": ["muster.world.records"],
        "muster.sizing.ring": ["muster.profiling.grid"],
        "muster.schedulers.parts": pure,
        "muster.report.page": reads_records,
    }
    shutil.copytree(ROOT / "muster", tmp_path / "muster", ignore=shutil.ignore_patterns("__pycache__"))
    for module, imported in planted.items():
        with (tmp_path / f"{module.replace('.', '/')}.py").open("a") as file:
            file.writelines(f"import {name}\n" for name in imported)
    done = import_rules(tmp_path)
    assert done.returncode == 1
    assert "Contracts: 0 kept, 3 broken." in done.stdout
    names = [rules[section]["name"] for section in rules.sections() if ":contract:" in section]
    broken = done.stdout.partition("Broken contracts")[2]
    _, layers, purity, records = re.split("|".join(map(re.escape, names)), broken)
    assert "muster.cluster.ledger -> muster.world.records" in layers
    assert "muster.sizing.ring -> muster.profiling.grid" in layers
    for name in pure:
        assert f"muster.schedulers.parts -> {name} (" in purity, name
    for name in reads_records:
        assert f"muster.report.page -> {name} (" in records, name


def test_every_package_can_be_seen_by_the_import_rules() -> None:
    """A folder without `__init__.py` would escape them."""
    folders = {path.parent for path in (ROOT / "muster").rglob("*.py")}
    assert sorted(str(folder) for folder in folders if not (folder / "__init__.py").exists()) == []


@pytest.mark.parametrize(
    ("wanted", "files"),
    [
        (PROJECT["dependencies"], ("requirements.lock",)),
        (PROJECT["optional-dependencies"]["dev"], ("requirements.lock", "requirements-dev.lock")),
    ],
)
def test_the_lock_pins_what_the_project_asks_for(wanted: list[str], files: tuple[str, ...]) -> None:
    pins = {name: pin for file in files for name, pin in locked(file).items()}
    for line in wanted:
        asked = Requirement(line)
        pin = pins[canonicalize_name(asked.name)]
        assert asked.specifier.contains(version_in(pin)), line
        for python in PYTHONS:
            there = {"python_version": python, "python_full_version": f"{python}.0"}
            needed = asked.marker is None or asked.marker.evaluate(there)
            assert needed == (pin.marker is None or pin.marker.evaluate(there)), (line, python)


def test_the_wheel_asks_for_what_the_code_imports() -> None:
    """A package that only another one brings may be gone with its next version."""
    named = {canonicalize_name(Requirement(line).name).replace("-", "_") for line in PROJECT["dependencies"]}
    module_of = {"vl_convert_python": "vl_convert"}
    allowed = {module_of.get(name, name) for name in named} | set(sys.stdlib_module_names) | {"muster"}
    # Parts of a named package under a name of their own, and the standard library from 3.14 on.
    allowed |= {"pydantic_core", "compression"} | ({"markupsafe"} if "jinja2" in allowed else set())
    pattern = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
    for path in sorted((ROOT / "muster").rglob("*.py")):
        code = re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)
        assert set(pattern.findall(code)) <= allowed, path


def test_the_changelog_knows_the_version_or_what_is_coming() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] in ("Unreleased", muster.__version__)
    assert muster.__version__ == PROJECT["version"]


def test_the_first_commands_are_there() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    targets = ("install", "demo", "test", "test-all", "lint", "bench")
    done = subprocess.run(["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
