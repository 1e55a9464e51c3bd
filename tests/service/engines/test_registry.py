"""Engines are found by their entry points, those of other packages too; nothing else in Muster knows their names."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

import muster
from muster.problems import InputError
from muster.service.engines import registry
from muster.service.engines.factory import EngineContext, EngineFactory, EngineOptions
from muster.service.engines.fake import FakeEngine
from muster.service.engines.registry import capabilities_of, configured_engine, engine_factory, engine_names
from muster.service.store.rows import JobRow
from tests.service.serving import CLUSTER

PACKAGE = Path(muster.__file__).parent
NAMES = {"local", "fake", "slurm", "ray", "kubernetes"}
"""Names of engines that exist or are planned."""
HOLDERS = {"engine", "engine_name", "bound_engine"}
"""What a variable or a field that holds an engine's name is called."""

Install: TypeAlias = Callable[[str], None]
"""Takes a line of entry_points.txt."""

OUTSIDE = """
from muster.service.engines.factory import EngineFactory
from muster.service.engines.fake import FACTORY as FAKE

FACTORY = EngineFactory(FAKE.capabilities, FAKE.options, FAKE.configure)
NO_FACTORY = "local"
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package that registers this entry point."""
    (tmp_path / "outside_engine.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def installed(line: str) -> None:
        info = tmp_path / "outside_engine-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-engine\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[muster.engines]\n{line}\n")
        registry._entry_points.cache_clear()

    yield installed
    registry._entry_points.cache_clear()
    sys.modules.pop("outside_engine", None)


def test_the_shipped_engines_are_registered() -> None:
    assert engine_names() == ("fake", "local", "ray", "slurm")
    assert all(isinstance(engine_factory(name), EngineFactory) for name in engine_names())


def test_an_installed_package_adds_an_engine(install: Install, tmp_path: Path) -> None:
    install("outside = outside_engine:FACTORY")
    assert engine_names() == ("fake", "local", "outside", "ray", "slurm")
    configured = configured_engine("outside", EngineOptions(fake_nodes=CLUSTER))
    rows: dict[int, JobRow] = {}
    engine = configured.open(EngineContext(tmp_path / "outside", rows.__getitem__, dict))
    assert isinstance(engine, FakeEngine)
    assert list(engine.nodes()) == list(configured.cluster.nodes)
    assert capabilities_of("outside") == engine.capabilities


@pytest.mark.parametrize(
    ("line", "asked", "message"),
    [
        (
            "outside = outside_engine:FACTORY",
            "outsid",
            "allowed: fake, local, outside, ray, slurm. Hint: did you mean outside",
        ),
        (
            "outside = outside_engine:NO_FACTORY",
            "outside",
            "is a str; an entry point of muster.engines names an",
        ),
        ("outside = outside_engine:MISSING", "outside", "cannot be loaded: AttributeError"),
        ("outside = no_such_module:X", "outside", "cannot be loaded: ModuleNotFoundError"),
        ("../outside = outside_engine:FACTORY", "local", "allowed: lower-case letters, digits, . _ -"),
        ("local = outside_engine:FACTORY", "local", "two installed packages register this name"),
    ],
)
def test_a_wrong_registration_is_refused(install: Install, line: str, asked: str, message: str) -> None:
    install(line)
    with pytest.raises(InputError) as refused:
        engine_factory(asked)
    assert message in str(refused.value)
    assert str(refused.value).startswith("--engine: found '")


def test_links_are_refused_where_an_engine_finds_no_racks() -> None:
    with pytest.raises(
        InputError, match=r"^--links: found 'site\.toml'; engine local does not take this option"
    ):
        configured_engine("local", EngineOptions(links=Path("site.toml")))


def test_an_unknown_engine_has_no_known_capabilities() -> None:
    assert capabilities_of(None) is None
    assert capabilities_of("kubernetes") is None


def test_an_installation_without_engines_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_entry_points", dict)
    with pytest.raises(InputError, match="lists no engines"):
        engine_factory("local")


def name_comparisons(code: str) -> list[int]:
    """Lines on which code depends on the name or the class of an engine."""
    lines = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            identity = all(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
            if not identity and any(map(_holds_engine_name, sides)):
                lines.append(node.lineno)
        elif isinstance(node, ast.Match):
            values = [pattern.value for pattern in ast.walk(node) if isinstance(pattern, ast.MatchValue)]
            if _holds_engine_name(node.subject) or any(map(_names_engine, values)):
                lines.append(node.lineno)
        elif isinstance(node, ast.Subscript):
            if _holds_engine_name(node.slice):
                lines.append(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            called = _word(node.func)
            parts = [part for argument in node.args for part in ast.walk(argument)]
            names = [_word(part) for part in parts]
            is_check = called in ("isinstance", "issubclass") and any(
                name.endswith("Engine") for name in names
            )
            if is_check or (called in ("startswith", "endswith") and _holds_engine_name(node.func.value)):  # type: ignore[union-attr]
                lines.append(node.lineno)
    return lines


def _holds_engine_name(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):  # store.engine()
        node = node.func
    return _word(node) in HOLDERS or _names_engine(node)


def _word(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _names_engine(node: ast.expr) -> bool:
    constants = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return any(isinstance(value, str) and value in NAMES for value in constants)


def test_no_code_outside_the_engines_compares_a_name() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if PACKAGE / "service" / "engines" not in path.parents:
            assert name_comparisons(path.read_text()) == [], path


@pytest.mark.parametrize(
    "code",
    [
        'if name == "local": pass',
        'if name in ("fake", "slurm"): pass',
        "if status.engine != LOCAL: pass",
        "if serving.engine_name == other: pass",
        "if store.engine() == LOCAL: pass",
        "if isinstance(engine, LocalEngine): pass",
        "if isinstance(engine, (int, fake.FakeEngine)): pass",
        "folder = FOLDERS[engine]",
        'if status.engine.startswith("k8s"): pass',
        'match name:\n    case "local": pass',
        "match status.engine:\n    case other: pass",
    ],
)
def test_each_way_to_compare_a_name_is_found(code: str) -> None:
    assert name_comparisons(code) == [1]


def test_an_engine_that_is_absent_may_be_asked_for() -> None:
    assert name_comparisons("if engine is None: pass") == []
