"""The house around the code: who may import whom, the lock, the first commands."""

from __future__ import annotations

import os
import re
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


def import_rules(tmp_path: Path, extra: str = "") -> subprocess.CompletedProcess[str]:
    """Checks the contracts of .importlinter, with something added."""
    config = tmp_path / ".importlinter"
    config.write_text((ROOT / ".importlinter").read_text() + extra)
    command = [str(Path(sys.executable).with_name("lint-imports")), "--config", str(config), "--no-cache"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_rooms_use_only_the_rooms_under_them_and_schedulers_are_pure(tmp_path: Path) -> None:
    done = import_rules(tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_forbidden_import_would_be_seen(tmp_path: Path) -> None:
    upside_down = ("type = layers", "layers =", "    muster.cluster", "    muster.world")
    done = import_rules(
        tmp_path, "\n".join(("", "[importlinter:contract:wrong]", "name = wrong", *upside_down, ""))
    )
    assert done.returncode == 1
    assert "wrong BROKEN" in done.stdout


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
