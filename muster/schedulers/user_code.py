"""Policies from a user's file or another package: where in their code an error lies, as a message for the user."""

from __future__ import annotations

import inspect
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from muster.problems import InputError, Problem, Unable

DEBUG_HINT = "MUSTER_DEBUG=1 shows the traceback"
_files: dict[str, str] = {}
"""Files of policies that were loaded in this process, and how the user wrote their names."""


def register(module: types.ModuleType, written: str) -> None:
    """Count the file of a module as a user's; `written` is the name for messages."""
    if module.__file__:
        _files[module.__file__] = written


def load_error(error: BaseException, file: str, written: str) -> Problem:
    """The problem of a policy file that cannot be loaded."""
    row = error.lineno if isinstance(error, SyntaxError) else None
    message = error.msg if isinstance(error, SyntaxError) else error
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == file:
            row = frame.lineno
    return Problem(written, f"it cannot be loaded: {type(error).__name__}: {message}", row=row)


@contextmanager
def errors_of_policies() -> Iterator[None]:
    """Turn an error that a user's policy raises into the user's problem, with its file and line."""
    try:
        yield
    except (InputError, Unable):
        raise
    except (Exception, SystemExit) as error:
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename in _files]
        if not frames:
            raise
        last = frames[-1]
        what = f"in {last.name}: {type(error).__name__}: {error}; {DEBUG_HINT}"
        raise InputError(Problem(_files[last.filename], what, row=last.lineno)) from error


def plan_problem(scheduler: object, message: str) -> Problem | None:
    """The problem of a plan that no scheduler may make, with the user's file; None if no part is a user's."""
    for policy in (scheduler, *getattr(scheduler, "parts", ())):
        methods = vars(type(policy))
        codes = {name: method.__code__ for name, method in methods.items() if inspect.isfunction(method)}
        for code in codes.values():
            if code.co_filename in _files:
                row = codes["decide"].co_firstlineno if "decide" in codes else None
                return Problem(_files[code.co_filename], message, row=row)
    return None


def method_problem(policy: object, method: str, what: str, found: object = None) -> InputError:
    """What is wrong with the answer of a policy's method, with its file and line where it is a user's."""
    name = getattr(policy, "name", "") or type(policy).__name__
    defined: Any = getattr(type(policy), method)
    file = inspect.getsourcefile(defined) or ""
    if file not in _files:
        return InputError(Problem(f"{method} of order {name}", what, found=found))
    row = inspect.getsourcelines(defined)[1]
    seen = "" if found is None else f"found {found}; "
    return InputError(Problem(_files[file], f"{method} of order {name}: {seen}{what}", row=row))
