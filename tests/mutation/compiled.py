"""Finds the changes in compiled code: in the text of a `.pyx` file, as no parser of it gives columns.

A token is changed where its neighbours say what it is: `<` after an operand compares, `<` after an operator casts.
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Iterator, Sequence
from itertools import pairwise
from tokenize import TokenInfo

from tests.mutation.edits import OPPOSITES, Edit, other_numbers

_OPERATORS = {
    "<": ("<=", "comparison"),
    "<=": ("<", "comparison"),
    ">": (">=", "comparison"),
    ">=": (">", "comparison"),
    "==": ("!=", "comparison"),
    "!=": ("==", "comparison"),
    "+": ("-", "arithmetic"),
    "-": ("+", "arithmetic"),
    "+=": ("-=", "arithmetic"),
    "-=": ("+=", "arithmetic"),
}
_NAMED = {
    "and": ("or", "boolean"),
    "or": ("and", "boolean"),
    "True": ("False", "constant"),
    "False": ("True", "constant"),
}
_DECLARES = ("def", "cdef", "cpdef", "class", "ctypedef")
_IMPORTS = ("import", "from", "include")
_NO_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
_ASSIGNS = ("=", "+=", "-=", "*=", "/=", "//=", "%=", "|=", "&=", "^=", "<<=", ">>=")
_NOT_CALLS = ("return", "yield", "raise", "if", "elif", "while", "for", "with", "del", "print")


def compiled_edits(source: str) -> list[Edit]:
    """Returns every known change of one line of a `.pyx` file; declarations and texts are left alone."""
    return [
        edit
        for function, statement in _statements(source)
        for edit in (*_of_statement(statement, function), *_of_tokens(statement, function))
    ]


def compiled_functions(source: str) -> dict[str, str]:
    """Returns the text of each function, class or structure by its qualified name."""
    texts: dict[str, list[str]] = {}
    lines = source.split("\n")
    for function, statement in _statements(source):
        names = function.split(".") if function else []
        for depth in range(len(names)):
            texts.setdefault(".".join(names[: depth + 1]), []).extend(
                lines[statement[0].start[0] - 1 : statement[-1].end[0]]
            )
    return {name: "\n".join(text) for name, text in texts.items()}


def _statements(source: str) -> Iterator[tuple[str, list[TokenInfo]]]:
    """Each statement that does something, with the qualified name of the function around it.

    Imports, texts, decorators, and the heads and fields of declarations are left out.
    """
    around: list[tuple[int, str, bool]] = []  # Column, name and whether it has fields instead of statements.
    statement: list[TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE and statement:
            column, first = statement[0].start[1], statement[0].string
            while around and column <= around[-1][0]:
                around.pop()
            if first in _DECLARES and statement[-1].string == ":":
                fields = any(one.string in ("struct", "enum", "extern") for one in statement[1:3])
                around.append((column, _declared(statement), fields))
            elif not (_has_no_behaviour(statement) or any(fields for _, _, fields in around)):
                yield ".".join(name for _, name, _ in around), statement
            statement = []
        elif token.type not in (*_NO_LAYOUT, tokenize.NEWLINE):
            statement.append(token)


def _declared(head: Sequence[TokenInfo]) -> str:
    """The name before the first bracket, else the last name."""
    names = [token.string for token in head if token.type == tokenize.NAME]
    for before, token in pairwise(head):
        if token.string == "(":
            return before.string
    return names[-1]


def _has_no_behaviour(statement: Sequence[TokenInfo]) -> bool:
    first = statement[0]
    if first.string in ("cdef", "ctypedef") and "=" not in [token.string for token in statement]:
        return True
    return first.string in _IMPORTS or first.string in ("@", "assert") or _is_text(first)


def _is_text(token: TokenInfo) -> bool:
    return token.type == tokenize.STRING


def _of_statement(statement: Sequence[TokenInfo], function: str) -> Iterator[Edit]:
    """Removes a statement, or negates a plain condition."""
    first, last = statement[0], statement[-1]
    if first.start[0] != last.end[0]:
        return
    texts = [token.string for token in statement]
    if texts in (["break"], ["continue"]) or _writes(texts) or _only_calls(texts):
        yield _edit(first, last, "", "pass", "removed statement", function)
    plain = not {*_OPERATORS, "and", "or", "not", "in", "is"}.intersection(texts)
    if first.string in ("if", "elif", "while") and last.string == ":" and plain:
        yield _edit(statement[1], statement[1], "", f"not {texts[1]}", "negation", function)


def _writes(texts: Sequence[str]) -> bool:
    """Whether a statement changes a value in place, or a field or an item of one."""
    if texts[0] in ("cdef", *_NOT_CALLS):
        return False
    depth = 0
    for number, word in enumerate(texts):
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if depth == 0 and word in _ASSIGNS:
            return word != "=" or "." in texts[:number] or "[" in texts[:number]
    return False


def _only_calls(texts: Sequence[str]) -> bool:
    """Whether a statement is one call, whose result is not used."""
    depth = 0
    for number, word in enumerate(texts):
        if depth == 0 and word == "(":
            before = texts[:number]
            named = all(one == "." or one.isidentifier() for one in before)
            return bool(before) and named and before[0] not in _NOT_CALLS and _closes(texts[number:])
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if word in _ASSIGNS:
            return False
    return False


def _closes(texts: Sequence[str]) -> bool:
    """Whether the bracket at the beginning is closed by the last word."""
    depth = 0
    for number, word in enumerate(texts):
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if depth == 0:
            return number == len(texts) - 1
    return False


def _of_tokens(statement: Sequence[TokenInfo], function: str) -> Iterator[Edit]:
    casts = _casts(statement)
    for number, token in enumerate(statement):
        before = statement[number - 1] if number else None
        after = statement[number + 1] if number + 1 < len(statement) else None
        if number in casts:
            continue
        if token.string in _OPERATORS and before is not None and _is_operand(before):
            new, kind = _OPERATORS[token.string]
            yield _edit(token, token, "", new, kind, function)
        elif token.string in _NAMED:
            new, kind = _NAMED[token.string]
            yield _edit(token, token, "", new, kind, function)
        elif token.string == "not" and after is not None and token.start[0] == after.start[0]:
            if after.string != "in" and not (before and before.string == "is"):
                yield _edit(token, after, "", after.string, "negation", function)
        elif token.string in OPPOSITES and after is not None and after.string == "(":
            yield _edit(token, token, "", OPPOSITES[token.string], "opposite", function)
        elif token.type == tokenize.NUMBER and not _is_dereference(statement, number):
            negative = before is not None and before.string == "-" and not _is_operand(statement[number - 2])
            for new, kind in _numbers(token.string, negative):
                yield _edit(token, token, "", new, kind, function)


def _numbers(text: str, negative: bool) -> list[tuple[str, str]]:
    """What a number becomes; -1, which stands for none, becomes 0 only, as any other below 0 would mean the same."""
    changes = other_numbers(ast.literal_eval(text))
    return [("0", "off by one")] if negative and text == "1" else changes


def _is_dereference(statement: Sequence[TokenInfo], number: int) -> bool:
    """Whether `[0]` stands for what a pointer points to; beside it there is no other value."""
    return [token.string for token in statement[number - 1 : number + 2]] == ["[", "0", "]"]


def _is_operand(token: TokenInfo) -> bool:
    """Whether a value ends here, so that an operator comes next."""
    if token.type == tokenize.NAME:
        return not keyword.iskeyword(token.string) or token.string in ("True", "False", "None")
    return token.type in (tokenize.NUMBER, tokenize.STRING) or token.string in (")", "]")


def _casts(statement: Sequence[TokenInfo]) -> set[int]:
    """Numbers of the tokens of `<type>` before a value."""
    found: set[int] = set()
    opened: int | None = None
    for number, token in enumerate(statement):
        if opened is None and token.string == "<" and (number == 0 or not _is_operand(statement[number - 1])):
            opened = number
        elif opened is not None and token.string == ">":
            found.update(range(opened, number + 1))
            opened = None
    return found


def _edit(first: TokenInfo, last: TokenInfo, old: str, new: str, kind: str, function: str) -> Edit:
    start = len(first.line[: first.start[1]].encode())
    end = len(last.line[: last.end[1]].encode())
    return Edit(first.start[0], start, end, old, new, kind, function)
