"""What is wrong with a command line, in the form of all errors: the flag, what was found and what is allowed."""

from __future__ import annotations

from typing import Any, get_args

import typer

from muster.problems import Problem

_OF_NUMBERS = {
    "int_parsing",
    "int_parsing_size",
    "float_parsing",
    "greater_than_equal",
    "less_than_equal",
    "finite_number",
}
_NO_CHOICE = " is not one of "


def usage_error(error: typer.TyperException) -> str:
    """What is wrong, and where the command's help is."""
    context = getattr(error, "ctx", None)
    message = _value_error(error) or error.format_message()
    return (
        f"{message}\nMore: {context.command_path} --help" if context and "Usage:" not in message else message
    )


def _value_error(error: typer.TyperException) -> str:
    """Of a value that an option or argument does not take; empty for any other error."""
    parameter: Any = getattr(error, "param", None)
    cause: Any = error.__cause__
    if parameter is None or not hasattr(cause, "errors"):
        return ""
    bad = cause.errors()[0]
    if bad["type"] in _OF_NUMBERS:
        kind = "a whole number" if _takes_whole_numbers(parameter) else "a number"
        allowed = kind + _bounds(parameter.min, parameter.max)
    elif _NO_CHOICE in bad["msg"]:
        allowed = bad["msg"].partition(_NO_CHOICE)[2].rstrip(".").replace("'", "")
    else:
        return ""
    name = parameter.get_error_hint().replace("'", "")
    return str(Problem(name, f"allowed: {allowed}", found=bad["input"]))


def _takes_whole_numbers(parameter: Any) -> bool:
    annotation = parameter.type_descriptor.annotation
    return int in (annotation, *get_args(annotation))


def _bounds(least: Any, most: Any) -> str:
    if least is None:
        return "" if most is None else f" up to {most:,.15g}"
    return f" from {least:,.15g} on" if most is None else f" from {least:,.15g} to {most:,.15g}"
