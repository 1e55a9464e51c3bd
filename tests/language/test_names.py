"""Names: a public class has one meaning in the package, and the name of a test says a behaviour briefly."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 60


def modules(folder: str) -> Iterator[tuple[str, ast.Module]]:
    """Path and syntax tree of each Python file of a folder."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def public_classes() -> dict[str, list[str]]:
    """The files that define a public class, by its name."""
    found = defaultdict(list)
    for path, tree in modules("muster"):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path)
    return found


def names_of_tests(tree: ast.Module) -> Iterator[str]:
    """The names of the tests of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def test_each_public_class_has_a_name_of_its_own() -> None:
    twice = {name: files for name, files in public_classes().items() if len(files) > 1}
    assert twice == {}


def test_names_of_tests_have_at_most_60_characters() -> None:
    long = [
        (path, name)
        for path, tree in modules("tests")
        for name in names_of_tests(tree)
        if len(name) > LONGEST
    ]
    assert long == []
