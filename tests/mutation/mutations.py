"""Finds the one-line changes that a test suite should notice."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.compiled import compiled_edits
from tests.mutation.edits import OPPOSITES, Edit, other_numbers

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_NO_NUMBERS = re.compile(
    r"muster/(report/(charts|curves|drawing|gantt|means|page|theme)|sweep/(charts|page))\.py"
)
"""Numbers in these files are sizes and distances on a page: no value of them is right or wrong."""
_ARGUMENTS_LEFT_ALONE = ("strict", "help", "padding")
"""Of calls: a check of `zip` that fails only where the code is wrong already, texts, and distances on a page."""
NOT_MUTATED = "muster/service/store/migrations/"
"""A schema that exists on disks is not changed any more."""


@dataclass(frozen=True)
class Mutation:
    """One change of one line."""

    path: str
    """Of the source file, relative to the repository."""
    line: int
    function: str
    """Qualified name of the function or class around the line; empty at the top of a module."""
    kind: str
    before: str
    """The whole line as it is."""
    after: str
    occurrence: int = 0
    """Earlier lines with the same text in the same function."""

    @property
    def place(self) -> str:
        """Names the line independently of its number, so that edits elsewhere in the file do not change it."""
        return "|".join((self.path, self.function, self.before.strip(), str(self.occurrence)))

    @property
    def key(self) -> str:
        """A short name that stays the same as long as the line does."""
        return hashlib.sha256(f"{self.place}|{self.after.strip()}".encode()).hexdigest()[:12]

    def applied(self, source: str) -> str:
        """Returns the source with this change."""
        lines = source.split("\n")
        assert lines[self.line - 1] == self.before, f"{self.path}:{self.line} is another line"
        lines[self.line - 1] = self.after
        return "\n".join(lines)


def mutations_of(source: str, path: str) -> list[Mutation]:
    """Returns every change of one line of a source file that this module knows."""
    lines = source.split("\n")
    edits = compiled_edits(source) if path.endswith(".pyx") else _python_edits(source, path)
    seen: Counter[tuple[str, str]] = Counter()
    occurrences: dict[int, int] = {}
    functions = {edit.line: edit.function for edit in edits}
    for number in sorted(functions):
        text = (functions[number], lines[number - 1].strip())
        occurrences[number] = seen[text]
        seen[text] += 1
    found = {}
    for edit in edits:
        before = lines[edit.line - 1]
        data = before.encode()
        old = data[edit.start : edit.end].decode()
        if edit.old not in old:
            continue
        new = old.replace(edit.old, edit.new, 1) if edit.old else edit.new
        after = (data[: edit.start] + new.encode() + data[edit.end :]).decode()
        mutation = Mutation(
            path, edit.line, functions[edit.line], edit.kind, before, after, occurrences[edit.line]
        )
        found[mutation.line, mutation.after] = mutation
    return list(found.values())


def _python_edits(source: str, path: str) -> list[Edit]:
    finder = _Finder(numbers=not _NO_NUMBERS.fullmatch(path))
    finder.visit(ast.parse(source))
    return finder.edits


def mutations_under(package: Path) -> list[Mutation]:
    """Returns every known change of the Python and `.pyx` files of a package."""
    found = []
    for file in sorted(file for suffix in ("py", "pyx") for file in package.rglob(f"*.{suffix}")):
        path = file.relative_to(package.parent).as_posix()
        if not path.startswith(NOT_MUTATED):
            found += mutations_of(file.read_text(encoding="utf-8"), path)
    return found


class _Finder(ast.NodeVisitor):
    """Walks a module and notes its edits; skips what is not behaviour: annotations, decorators, texts, logging."""

    def __init__(self, numbers: bool) -> None:
        self.edits: list[Edit] = []
        self._numbers = numbers
        self._names: list[str] = []

    # What is walked through

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._names.append(node.name)
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        """An assertion is itself a check."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Positions inside of formatted texts are unknown before Python 3.12."""

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            return
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._remove(node)
        self.generic_visit(node)

    # What is changed

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or _is_logging(node.value):
            return
        if isinstance(node.value, ast.Call):
            self._remove(node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._remove(node)
        self._between(node.target, node.value, _ARITHMETIC.get(type(node.op)), "arithmetic")
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._remove(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._remove(node)
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._remove(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._remove(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            self._between(left, right, _COMPARISONS[type(operator)], "comparison")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._between(node.left, node.right, _ARITHMETIC.get(type(node.op)), "arithmetic")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        swap = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, swap, "boolean")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._whole(node, "not ", "", "negation")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._negate(condition)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            self._swap_name(node.func, node.func.id)
        elif isinstance(node.func, ast.Attribute):
            self._swap_name(node.func, node.func.attr)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _ARGUMENTS_LEFT_ALONE:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._whole(node, "", str(not value), "constant")
        elif self._numbers and isinstance(value, int | float):
            for new, kind in other_numbers(value):
                self._whole(node, "", new, kind)

    # How

    def _note(self, line: int, span: tuple[int, int], change: tuple[str, str], kind: str) -> None:
        self.edits.append(Edit(line, *span, *change, kind, ".".join(self._names)))

    def _whole(self, node: ast.expr | ast.stmt, old: str, new: str, kind: str) -> None:
        if node.lineno == node.end_lineno and node.end_col_offset is not None:
            self._note(node.lineno, (node.col_offset, node.end_col_offset), (old, new), kind)

    def _between(self, left: ast.expr, right: ast.expr, change: tuple[str, str] | None, kind: str) -> None:
        if change is not None and left.end_lineno == right.lineno and left.end_col_offset is not None:
            self._note(right.lineno, (left.end_col_offset, right.col_offset), change, kind)

    def _negate(self, test: ast.expr) -> None:
        negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
        if not negated and not isinstance(test, ast.Compare | ast.BoolOp):
            self._note(test.lineno, (test.col_offset, test.col_offset), ("", "not "), "negation")

    def _swap_name(self, function: ast.expr, name: str) -> None:
        if name in OPPOSITES and function.end_col_offset is not None and function.end_lineno is not None:
            span = (function.end_col_offset - len(name), function.end_col_offset)
            self._note(function.end_lineno, span, (name, OPPOSITES[name]), "opposite")

    def _remove(self, node: ast.stmt) -> None:
        self._whole(node, "", "pass", "removed statement")


def _is_logging(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "log"
    )
