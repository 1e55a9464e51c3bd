"""Names: a public class has one meaning in the package, and the name of a test says a behaviour briefly."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

LONGEST = 60
"""Characters that the name of a test may have."""


def faults_of_names(root: Path) -> list[str]:
    """One line for each name that is to be another, with the file that has it."""
    return [*_classes_of_one_name(root), *_long_names_of_tests(root)]


def _classes_of_one_name(root: Path) -> Iterator[str]:
    files = defaultdict(list)
    for path, tree in _modules(root, "muster"):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].append(path)
    for name, found in files.items():
        if len(found) > 1:
            yield f"{', '.join(found)}: class {name}; allowed: one public class of a name"


def _long_names_of_tests(root: Path) -> Iterator[str]:
    for path, tree in _modules(root, "tests"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_long_name_of_test(node.name):
                yield f"{path}:{node.lineno}: {node.name}, {len(node.name)} characters; allowed: at most {LONGEST}"


def _is_long_name_of_test(name: str) -> bool:
    return name.startswith("test_") and len(name) > LONGEST


def _modules(root: Path, folder: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((root / folder).rglob("*.py")):
        yield str(path.relative_to(root)), ast.parse(path.read_text(encoding="utf-8"))
