"""TOML from a user, checked by a Pydantic model; each mistake is reported with its line.

A field is named by its way through the file; entries of an array count from 1 (`nodes.2.count`: the second
`[[nodes]]`).
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from muster.patterns import ALLOWED
from muster.problems import InputError, Problem, with_hint

Model = TypeVar("Model", bound=BaseModel)
DetailsT = TypeVar("DetailsT", bound=ErrorDetails)
Way = tuple[str | int, ...]
"""From the top of the file to a field, array entries counted from 0."""

_AT_LINE = re.compile(r"(.*?) \(at (?:line (\d+), column \d+|end of document)\)")
_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*([A-Za-z0-9_."'-]+)\s*=""")

_KINDS = {
    "int": "allowed: a whole number",
    "float": "allowed: a number",
    "string": "allowed: a text in quotes",
    "bool": "allowed: true or false",
    "tuple": "allowed: a list in [ ]",
    "list": "allowed: a list in [ ]",
    "dict": "allowed: a table",
    "model": "allowed: a table",
}
"""The sentence for an error type of Pydantic that starts with this word and that `_WHAT` does not have."""

_WHAT = {
    "missing": "this field is missing",
    "value_error": "{error}",
    "greater_than_equal": "allowed: {ge:g} or more",
    "greater_than": "allowed: more than {gt:g}",
    "less_than_equal": "allowed: {le:g} or less",
    "finite_number": "allowed: a finite number",
    "string_too_short": "it must not be empty",
    "string_too_long": "allowed: at most {max_length:,} characters",
    "string_unicode": "allowed: text without lone surrogates",
    "too_short": "allowed: at least one entry",
    "too_long": "allowed: at most {max_length:,} entries",
    "enum": "allowed: {expected}",
    "literal_error": "allowed: {expected}",
}
"""The sentence for each of Pydantic's error types, to be filled from the error's context."""

_NOT_SHOWN = {"missing", "extra_forbidden", "string_too_long", "string_unicode", "too_long"}
"""Error types whose input says nothing, or is too long or too odd to print."""


def parse_toml(text: str, where: str, model: type[Model]) -> Model:
    """The text as a checked `model`; `where` is what its file is called. InputError has all problems."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(_syntax_problem(text, where, str(error))) from None
    try:
        return model.model_validate(table)
    except ValidationError as error:
        found = without_wrong_counts(error.errors(include_url=False, include_context=True))
        raise InputError(*(_problem_of(details, text, where, model) for details in found)) from None


def without_wrong_counts(found: Sequence[DetailsT]) -> list[DetailsT]:
    """The errors but those that a list has no entry whose entries are all wrong: Pydantic counts the right ones."""
    return [details for details in found if details["type"] != "too_short" or not details["input"]]


def field_problem(text: str, where: str, way: Way, what: str, found: object = None) -> Problem:
    """A problem of one field of a TOML text, with its line."""
    column = ".".join(str(step + 1 if isinstance(step, int) else step) for step in way)
    return Problem(where, what, row=_line_of(text, way), column=column or None, found=found)


def describe_error(details: ErrorDetails, model: type[BaseModel] | None, way: Way) -> tuple[str, object]:
    """What is wrong with the field at `way` of a `model`, and what was found there, if that can be shown."""
    kind, found = details["type"], details["input"]
    shown = found if isinstance(found, str | int | float) and kind not in _NOT_SHOWN else None
    if kind == "extra_forbidden":
        return _unknown_field(model, way), shown
    if kind == "string_pattern_mismatch":
        return f"allowed: {ALLOWED[details['ctx']['pattern']]}", shown
    if template := _WHAT.get(kind):
        return template.format_map(details.get("ctx", {})), shown
    return _KINDS.get(kind.split("_")[0], str(details["msg"])), shown


def _unknown_field(model: type[BaseModel] | None, way: Way) -> str:
    """The sentence about a field that the table at `way` does not have."""
    allowed = sorted(_fields_at(model, way[:-1])) if model else []
    close = get_close_matches(str(way[-1]), allowed, n=1)
    hint = f"did you mean {close[0]}?" if close else ""
    return with_hint(f"there is no such field; allowed: {', '.join(allowed)}", hint)


def _syntax_problem(text: str, where: str, message: str) -> Problem:
    match = _AT_LINE.fullmatch(message)
    said, line = (match[1], match[2]) if match else (message, None)
    row = int(line) if line else max(1, len(text.splitlines()))
    return Problem(where, f"this is not TOML: {said[:1].lower()}{said[1:]}", row=row)


def _problem_of(details: ErrorDetails, text: str, where: str, model: type[BaseModel]) -> Problem:
    way = details["loc"]
    return field_problem(text, where, way, *describe_error(details, model, way))


def _fields_at(model: type[BaseModel], way: Way) -> list[str]:
    """The field names allowed in the table at `way`."""
    at: object = model
    for step in way:
        if isinstance(at, type) and issubclass(at, BaseModel):
            at = at.model_fields[str(step)].annotation
        else:
            at = next(kind for kind in reversed(get_args(at)) if kind is not Ellipsis)
    return list(at.model_fields) if isinstance(at, type) and issubclass(at, BaseModel) else []


def _line_of(text: str, way: Way) -> int | None:
    """The line where the field stands, else the line of the nearest table above it."""
    lines: dict[Way, int] = {}
    entries: Counter[Way] = Counter()
    table: Way = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = _steps(header[2])
            if header[1] == "[[":
                table = (*table, entries[table])
                entries[table[:-1]] += 1
                lines.setdefault(table[:-1], number)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_steps(key[1])), number)
    return next((lines[way[:end]] for end in range(len(way), 0, -1) if way[:end] in lines), None)


def _steps(dotted: str) -> Way:
    return tuple(step.strip().strip("\"'") for step in dotted.split("."))
