"""Chooses the test files that are most likely to notice a change, without running anything.

A test file is near if it imports the module or names the function, if its path or a text in it has the module's
name, if its path has a word of the function's name, if it shares rare words with the function and the module, and if
few imports lie between the two.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.compiled import compiled_functions

_DIRECT, _FUNCTION, _DEFINITION, _REGISTERED, _PATH, _ROOM = 8.0, 10.0, 2.0, 8.0, 4.0, 3.0
_MOST_DEFINITIONS = 4
_FUNCTION_WORDS, _MODULE_WORDS = 30.0, 20.0
_SERVED_BY = {"runtime": "simulation"}
"""A room whose code runs in another room's tests."""
_WHOLE_RUNS = (
    "tests/simulation/test_fixed_runs.py",
    "tests/simulation/test_compiled_scheduler.py",
    "tests/simulation/test_random_runs.py",
)
"""Tests that compare the records of whole runs of all schedulers, whatever names they contain."""
_IN_WHOLE_RUNS = ("schedulers", "runtime", "simulation", "cluster", "speed")
"""The rooms whose code decides what happens in a run."""
_COMMON = {"muster", "tests", "test", "init", "main", "service", "schedulers", "and", "of", "the"}


@dataclass(frozen=True)
class _Source:
    """What choosing needs of one Python file."""

    path: str
    imports: frozenset[str]
    words: frozenset[str]
    defined: frozenset[str] = field(default=frozenset())
    functions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The words of each function and class, by qualified name."""
    registered: frozenset[str] = field(default=frozenset())
    """Names under which a configuration or a command line finds its parts: `name: ClassVar[str] = "ftf"`."""

    @property
    def tokens(self) -> set[str]:
        """The words of its path."""
        words = self.path.rpartition(".")[0].replace("test_", "").replace("_", "/").split("/")
        return set(words) - _COMMON


class Nearest:
    """The import graph of a package, its experiments and its tests, and the names that each file uses."""

    def __init__(self, root: Path, package: str = "muster", tests: str = "tests") -> None:
        files = sorted(
            path
            for folder, suffix in ((package, "py"), (package, "pyx"), ("experiments", "py"), (tests, "py"))
            for path in (root / folder).rglob(f"*.{suffix}")
        )
        names = {path: _module_name(path, root) for path in files}
        modules = set(names.values())
        self._sources = {
            name: _read_compiled(path, root, name, modules)
            if path.suffix == ".pyx"
            else _read(path, root, name, modules)
            for path, name in names.items()
        }
        self._tests = [
            name
            for name in self._sources
            if name.rpartition(".")[2].startswith("test_") and not name.startswith(f"{tests}.mutation")
        ]
        uses = Counter(word for test in self._tests for word in self._sources[test].words)
        self._rarity = {word: math.log(len(self._tests) / count) for word, count in uses.items()}
        self._quoted = {test: self._words_with_helpers(test, tests) for test in self._tests}
        self._distances = {test: self._distances_from(test) for test in self._tests}

    def tests_for(self, path: str, function: str, most: int) -> list[str]:
        """Returns the paths of the nearest test files, at most so many, and of the tests of whole runs.

        Whole runs come last, but the quickest come first for compiled code, which all of them go through. The list is
        empty where no test imports the module.
        """
        module = _dotted(path)
        rated = [
            (-self._rating(test, module, function), self._sources[test].path)
            for test in self._tests
            if module in self._distances[test]
        ]
        nearest = [test for _, test in sorted(rated)[:most]]
        if path.split("/")[1] not in _IN_WHOLE_RUNS:
            return nearest
        reaching = {test for _, test in rated}
        whole = [test for test in _WHOLE_RUNS if test in reaching]
        first = whole[:1] if path.endswith(".pyx") else []
        return list(dict.fromkeys([*first, *nearest, *whole]))

    def _rating(self, test: str, module: str, function: str) -> float:
        source, target = self._sources[test], self._sources[module]
        distance = self._distances[test][module]
        own = set(function.split(".")) - {""}
        others = len((target.defined - own) & source.words)
        rating = _DEFINITION * min(others, _MOST_DEFINITIONS) - distance
        rating += _FUNCTION_WORDS * self._likeness(target.functions.get(function, frozenset()), source.words)
        rating += _MODULE_WORDS * self._likeness(target.words, source.words)
        rating += _DIRECT if distance == 1 else 0.0
        rating += _FUNCTION if own & source.words else 0.0
        rating += _REGISTERED if target.registered & self._quoted[test] else 0.0
        rating += _PATH * len((target.tokens | _parts(own)) & source.tokens)
        room = [_SERVED_BY.get(part, part) for part in target.path.split("/")[1:-1]]
        shared = 0
        for one, other in zip(room, source.path.split("/")[1:-1], strict=False):
            if one != other:
                break
            shared += 1
        return rating + _ROOM * shared

    def _words_with_helpers(self, test: str, tests: str) -> frozenset[str]:
        """The words of a test file and of the files of the test suite that it imports: lists of names are there."""
        helpers = [name for name in self._sources[test].imports if name.startswith(f"{tests}.")]
        return self._sources[test].words.union(*(self._sources[name].words for name in helpers))

    def _likeness(self, some: frozenset[str], others: frozenset[str]) -> float:
        """Returns the cosine of two sets of words, each word weighted by how few tests use it."""
        both = self._weight(some) * self._weight(others)
        return self._weight(some & others) / math.sqrt(both) if both else 0.0

    def _weight(self, names: Iterable[str]) -> float:
        return math.fsum(self._rarity.get(word, 0.0) ** 2 for word in names)

    def _distances_from(self, test: str) -> dict[str, int]:
        distances, waiting = {test: 0}, deque([test])
        while waiting:
            name = waiting.popleft()
            for imported in self._sources[name].imports:
                if imported not in distances:
                    distances[imported] = distances[name] + 1
                    waiting.append(imported)
        return distances


def _parts(names: Iterable[str]) -> set[str]:
    """The words of names such as `apply_priorities`."""
    return {word for name in names for word in name.split("_")} - _COMMON - {""}


def _dotted(path: str) -> str:
    return path.rpartition(".")[0].replace("/", ".").removesuffix(".__init__")


def _module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(path: Path, root: Path, name: str, modules: set[str]) -> _Source:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join(parents[: len(parents) - node.level + 1] + ([base] if base else []))
            imports.add(base)
            imports.update(f"{base}.{alias.name}" for alias in node.names)
    imports.update(re.findall(rf"\b{name.partition('.')[0]}(?:\.\w+)+", text))
    if "import_module(" in text:
        imports.update(module for module in modules if module.startswith(f"{name.rpartition('.')[0]}."))
    words = _words(text)
    defined = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("__")
    }
    functions: dict[str, frozenset[str]] = {}
    _words_of_functions(tree, "", text.split("\n"), functions)
    registered = {
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == "name"
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    if path.relative_to(root).parts[1:2] == ("cli",):
        registered.add(path.stem.replace("_", "-"))
    return _Source(
        path.relative_to(root).as_posix(),
        frozenset(imports & modules - {name}),
        words,
        frozenset(defined),
        functions,
        frozenset(registered),
    )


def _read_compiled(path: Path, root: Path, name: str, modules: set[str]) -> _Source:
    """Compiled files name what they import in full."""
    text = path.read_text(encoding="utf-8")
    functions = compiled_functions(text)
    return _Source(
        path.relative_to(root).as_posix(),
        frozenset(set(re.findall(r"\b\w+(?:\.\w+)+", text)) & modules - {name}),
        _words(text),
        frozenset(function.rpartition(".")[2] for function in functions),
        {function: frozenset(re.findall(r"\w+", body)) for function, body in functions.items()},
    )


def _words(text: str) -> frozenset[str]:
    """All words of a file, with the names in quotes and the parts of names such as `las+tune`."""
    quoted = re.findall(r"""["']([\w+-]+)["']""", text)
    return frozenset(re.findall(r"\w+", text)).union(quoted, *(name.split("+") for name in quoted))


def _words_of_functions(node: ast.AST, name: str, lines: list[str], found: dict[str, frozenset[str]]) -> None:
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{name}.{child.name}" if name else child.name
            found[inner] = frozenset(
                re.findall(r"\w+", "\n".join(lines[child.lineno - 1 : child.end_lineno]))
            )
        _words_of_functions(child, inner, lines, found)
