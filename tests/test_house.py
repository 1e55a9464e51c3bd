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
from muster.extras import PACKAGES, extra_of, install_command

ROOT = Path(__file__).parent.parent
EXTRAS = ("simulator", "charts", "service", "postgres")
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


def test_layers_import_downwards_and_schedulers_are_pure() -> None:
    done = import_rules(ROOT)
    assert done.returncode == 0, done.stdout


def contracts() -> dict[str, configparser.SectionProxy]:
    """The import rules, by the last part of their section's name."""
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter")
    prefix = "importlinter:contract:"
    return {name.removeprefix(prefix): rules[name] for name in rules.sections() if name.startswith(prefix)}


def forbidden_by(contract: str) -> list[str]:
    return contracts()[contract]["forbidden_modules"].split()


PLANTED = {
    "rooms": {
        "muster.cluster.ledger": ["muster.runtime.records"],
        "muster.sizing.ring": ["muster.profiling.grid"],
    },
    "experiments": {"muster.cli.app": ["experiments.papers.command"]},
    "training-needs-numpy-alone": {"muster.training.run": forbidden_by("training-needs-numpy-alone")},
    "schedulers-are-pure": {"muster.schedulers.parts": forbidden_by("schedulers-are-pure")},
    "report-reads-records": {"muster.report.page": forbidden_by("report-reads-records")},
    "schedulers": {
        "muster.schedulers.queue_order.fifo": ["muster.schedulers.placement.job_columns"],
        "muster.schedulers.parts": ["muster.schedulers.composed"],
    },
    "speed": {
        "muster.speed.network.tree": ["muster.speed.rates"],
        "muster.speed.input_pipeline": ["muster.speed.rates"],
    },
    "speed-is-pure": {"muster.speed.rates": forbidden_by("speed-is-pure")},
    "service": {
        "muster.service.store.rows": ["muster.service.engines.interface"],
        "muster.service.controller.executor": ["muster.service.simulated_queue"],
    },
    "api-and-controller": {"muster.service.api.jobs": forbidden_by("api-and-controller")},
    "engines": {"muster.service.engines.local.engine": ["muster.service.engines.fake"]},
    "engines-by-registry": {
        "muster.service.daemon": ["muster.service.engines.local.engine"],
        "muster.cli.serve": ["muster.service.engines.fake"],
    },
    "advice-is-read-only": {"muster.advise.read": forbidden_by("advice-is-read-only")},
}
"""For each rule the imports that it must find: importer, imported."""


def test_each_import_rule_finds_a_planted_violation(tmp_path: Path) -> None:
    rules = contracts()
    assert PLANTED.keys() == rules.keys()
    for package in ("muster", "experiments"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    for violations in PLANTED.values():
        for importer, imported in violations.items():
            with (tmp_path / f"{importer.replace('.', '/')}.py").open("a") as file:
                file.writelines(f"import {name}\n" for name in imported)
    done = import_rules(tmp_path)
    assert done.returncode == 1
    assert f"Contracts: 0 kept, {len(rules)} broken." in done.stdout
    broken = done.stdout.partition("Broken contracts")[2]
    reports = re.split("|".join(re.escape(rule["name"]) for rule in rules.values()), broken)[1:]
    for report, rule in zip(reports, rules, strict=True):
        for importer, imported in PLANTED[rule].items():
            for name in imported:
                assert f"{importer} -> {name} (" in report, (rule, importer, name)


def test_every_package_can_be_seen_by_the_import_rules() -> None:
    """A folder without `__init__.py` would escape them."""
    folders = {
        path.parent for package in ("muster", "experiments") for path in (ROOT / package).rglob("*.py")
    }
    assert sorted(str(folder) for folder in folders if not (folder / "__init__.py").exists()) == []


@pytest.mark.parametrize(
    ("wanted", "files"),
    [
        (PROJECT["dependencies"], ("requirements.lock",)),
        *((PROJECT["optional-dependencies"][extra], ("requirements.lock",)) for extra in EXTRAS),
        (PROJECT["optional-dependencies"]["dev"], ("requirements.lock", "requirements-dev.lock")),
        (PROJECT["optional-dependencies"]["docs"], ("requirements.lock", "requirements-dev.lock")),
    ],
)
def test_the_lock_pins_what_the_project_asks_for(wanted: list[str], files: tuple[str, ...]) -> None:
    pins = {name: pin for file in files for name, pin in locked(file).items()}
    for line in wanted:
        asked = Requirement(line)
        if asked.name == PROJECT["name"]:
            continue
        pin = pins[canonicalize_name(asked.name)]
        assert asked.specifier.contains(version_in(pin)), line
        for python in PYTHONS:
            there = {"python_version": python, "python_full_version": f"{python}.0"}
            needed = asked.marker is None or asked.marker.evaluate(there)
            assert needed == (pin.marker is None or pin.marker.evaluate(there)), (line, python)


def packages_of(*groups: str) -> set[str]:
    """What the requirements of these groups are imported as."""
    lists = {**PROJECT["optional-dependencies"], "dependencies": PROJECT["dependencies"]}
    named = {Requirement(line).name for group in groups for line in lists[group]} - {PROJECT["name"]}
    modules = {canonicalize_name(name).replace("-", "_") for name in named}
    imported = {
        "vl_convert_python": "vl_convert",
        "backports_zstd": "backports",
        "nvidia_ml_py": "pynvml",
    }
    return {imported.get(name, name) for name in modules}


@pytest.mark.parametrize("extra", [*EXTRAS, "ray", "mcp"])
def test_a_missing_package_is_named_with_its_extra(extra: str) -> None:
    assert set(PACKAGES[extra]) == packages_of(extra)
    shared = {
        package
        for package in PACKAGES[extra]
        for other in PACKAGES
        if package in PACKAGES[other] and other != extra
    }
    assert {extra_of(package) for package in set(PACKAGES[extra]) - shared} == {extra}
    assert shared <= {"jinja2"}
    assert install_command(extra).endswith(f"'{PROJECT['name']}[{extra}]'")


def contained(extra: str) -> set[str]:
    """An extra and those that it brings."""
    lines = map(Requirement, PROJECT["optional-dependencies"][extra])
    own = [line.extras for line in lines if line.name == PROJECT["name"]]
    return {extra}.union(*(contained(name) for names in own for name in names))


def test_the_extra_all_has_all_that_a_user_runs() -> None:
    assert contained("all") == {"all", *EXTRAS}
    assert {"all", *EXTRAS, "ray", "mcp", "torch", "docs", "dev"} == set(PROJECT["optional-dependencies"])


def test_the_wheel_asks_for_what_the_code_imports() -> None:
    """A package that only another one brings may be gone with its next version."""
    allowed = packages_of("dependencies", *EXTRAS, "ray", "mcp") | set(sys.stdlib_module_names) | {"muster"}
    # Parts of a named package under a name of their own, and the standard library from 3.14 on.
    # `typing_extensions` is imported for the type checker alone, which brings it.
    allowed |= {"pydantic_core", "compression", "typing_extensions"}
    pattern = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
    for path in sorted((ROOT / "muster").rglob("*.py")):
        code = re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)
        assert set(pattern.findall(code)) <= allowed, path


@pytest.mark.parametrize(
    ("imported", "packages"), [("muster", []), ("muster.cli", []), ("muster.training", ["numpy"])]
)
def test_an_import_brings_few_packages(imported: str, packages: list[str]) -> None:
    code = f"""
import sys
before = set(sys.modules)
import {imported}
tops = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(sorted(tops - sys.stdlib_module_names - {{"muster", "__mp_main__"}}))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(packages)


def test_the_changelog_knows_the_version_or_what_is_coming() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] in ("Unreleased", muster.__version__)
    assert muster.__version__ == PROJECT["version"]


def test_the_first_commands_are_there() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    targets = ("install", "demo", "test", "test-all", "lint", "bench")
    done = subprocess.run(["make", "-n", *targets], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["explanation/architecture.md", "reference/glossary.md"])
def test_a_page_names_only_files_that_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    named = re.findall(r"`([\w/]+(?:\.py|/))`", text)
    assert len(named) > 10
    package = ROOT / "muster"
    places = [ROOT, package, *package.glob("*"), package / "service" / "controller"]
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert missing == []
