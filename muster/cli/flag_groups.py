"""Groups of flags: a command takes each group as one dataclass, the command line takes each flag on its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

from muster.cli.help import help_all

_MORE_HELP = "more_help"


def takes_flag_groups(
    *, more_help: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the flags of its groups: its parameters whose type is a dataclass of flags.

    Help lists the flags of a group in the order of its fields, at the place of its parameter. `more_help` adds
    `--help-all` with this sentence, for a command that has rarely needed flags.
    """

    def with_groups(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        groups: dict[str, Any] = {
            name: parameter.annotation
            for name, parameter in signature.parameters.items()
            if is_dataclass(parameter.annotation)
        }

        @functools.wraps(command)
        def with_flags(*arguments: Any, **typed: Any) -> None:
            typed.pop(_MORE_HELP, None)  # Help is shown while the command line is read.
            made = {
                name: group(
                    **{flag.name: typed.pop(flag.name) for flag in fields(group) if flag.name in typed}
                )
                for name, group in groups.items()
            }
            command(*arguments, **typed, **made)

        parameters = list(_flattened(signature))
        if more_help is not None:
            shown = Annotated[bool, help_all(more_help)]
            parameters.append(_keyword(_MORE_HELP, default=False, annotation=shown))
        with_flags.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return with_flags

    return with_groups


def _flattened(signature: inspect.Signature) -> Iterator[inspect.Parameter]:
    """The parameters of a command, the fields of a group in the place of the group."""
    for parameter in signature.parameters.values():
        group = parameter.annotation
        if is_dataclass(group):
            hints = get_type_hints(group, include_extras=True)
            for flag in fields(group):
                yield _keyword(flag.name, default=_default(flag), annotation=hints[flag.name])
        else:
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _keyword(name: str, *, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _default(flag: Field[Any]) -> Any:
    return inspect.Parameter.empty if flag.default is MISSING else flag.default
