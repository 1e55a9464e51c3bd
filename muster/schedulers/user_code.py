"""Policies from a user's file or another package: where in their code an error lies, as a message for the user."""

from __future__ import annotations

import inspect
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from muster.problems import InputError, Problem, Unable

DEBUG_HINT = "MUSTER_DEBUG=1 shows the traceback"
_DECIDING = ("decide", "allocate")
"""The methods that write into a decision: the one of a whole scheduler, and of a gang allocator."""
_WHOLE = ("describe", "initial", "decide")
"""The methods of a whole scheduler."""
_DESCRIBED = {"name", "parts", "settings", "needs"}
"""What `describe` states."""
_files: dict[str, str] = {}
"""Files of policies that were loaded in this process, and how the user wrote their names."""
_FOREIGN = (
    __file__.rpartition("/schedulers/")[0],
    *(sysconfig.get_path(one) for one in ("stdlib", "platstdlib", "purelib", "platlib")),
)
"""Folders of Muster, of Python and of installed packages."""


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
        files = _users_files()
        frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename in files]
        if not frames:
            raise
        last = frames[-1]
        what = f"in {last.name}: {type(error).__name__}: {error}; {DEBUG_HINT}"
        raise InputError(Problem(files[last.filename], what, row=last.lineno)) from error


def class_problem(kind: type[Any], what: str) -> InputError:
    """What is wrong with a class of a policy, with its file and line where it is a user's."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    written = _users_files().get(file)
    if written is None:
        return InputError(Problem("--scheduler", f"{kind.__name__}: {what}"))
    return InputError(Problem(written, f"{kind.__name__}: {what}", row=inspect.getsourcelines(kind)[1]))


def check_policy(policy: Any, methods: Mapping[type[Any], tuple[str, ...]]) -> None:
    """InputError unless a policy has a name and its methods; `methods` are those of a part, one of which is its own."""
    kind = type(policy)
    name = getattr(policy, "name", None)
    if not isinstance(name, str) or not name:
        raise class_problem(kind, f"name: found {name!r}; allowed: a text")
    for base, own in methods.items():
        if isinstance(policy, base) and all(getattr(kind, one) is getattr(base, one) for one in own):
            raise class_problem(kind, f"it has no method {' or '.join(own)}")
    if any(isinstance(policy, base) for base in methods) or not hasattr(policy, "decide"):
        return
    if missing := [one for one in _WHOLE if not callable(getattr(policy, one, None))]:
        raise class_problem(kind, f"it has no method {', '.join(missing)}")
    described = policy.describe()
    if not isinstance(described, dict) or not described.keys() >= _DESCRIBED:
        found = f"keys {sorted(described)}" if isinstance(described, dict) else type(described).__name__
        raise class_problem(
            kind, f"describe: found {found}; allowed: a dict of {', '.join(sorted(_DESCRIBED))}"
        )


def plan_problem(scheduler: object, message: str) -> Problem | None:
    """The problem of a plan that no scheduler may make, with the user's file; None if no part is a user's."""
    files = _users_files()
    for policy in _policies(scheduler):
        codes = {
            name: method.__code__ for name, method in inspect.getmembers(type(policy), inspect.isfunction)
        }
        theirs = {name: code for name, code in codes.items() if code.co_filename in files}
        if theirs:
            decides = next((theirs[name] for name in _DECIDING if name in theirs), None)
            file = (decides or next(iter(theirs.values()))).co_filename
            return Problem(files[file], message, row=decides.co_firstlineno if decides else None)
    return None


def has_own_code(scheduler: object) -> bool:
    """Whether the scheduler or one of its parts does not come with Muster."""
    return any(type(policy).__module__.partition(".")[0] != "muster" for policy in _policies(scheduler))


def _policies(scheduler: object) -> tuple[object, ...]:
    """The scheduler, the one that it asks and adds a certificate to, and their parts."""
    inner = getattr(scheduler, "inner", scheduler)
    return scheduler, inner, *getattr(inner, "parts", ())


def method_problem(policy: object, method: str, what: str, found: object = None) -> InputError:
    """What is wrong with the answer of a policy's method, with its file and line where it is a user's."""
    name = getattr(policy, "name", "") or type(policy).__name__
    order = "queue_order" in getattr(policy, "slots", ())
    kind = "scheduler" if hasattr(policy, "decide") else "order" if order else "part"
    whose = f"{method} of {kind} {name}"
    defined: Any = getattr(type(policy), method)
    if isinstance(defined, property):
        defined = defined.fget
    elif not callable(defined):
        defined = type(policy)
    written = _users_files().get(inspect.getsourcefile(defined) or "")
    if written is None:
        return InputError(Problem(whose, what, found=found))
    row = inspect.getsourcelines(defined)[1]
    seen = "" if found is None else f"found {found}; "
    return InputError(Problem(written, f"{whose}: {seen}{what}", row=row))


def _users_files() -> Mapping[str, str]:
    """The files of policies and of what they import of the user's own, with their names for messages.

    A file beside one whose name is relative has a relative name, too.
    """
    found = dict(_files)
    waiting = [one for one in list(sys.modules.values()) if getattr(one, "__file__", None) in found]
    while waiting:
        module = waiting.pop()
        for other in _imported_by(module):
            file = getattr(other, "__file__", None)
            if file and file not in found and not file.startswith(tuple(f"{one}/" for one in _FOREIGN)):
                known = module.__file__ or ""
                found[file] = file.removeprefix(known.removesuffix(found[known]))
                waiting.append(other)
    return found


def _imported_by(module: types.ModuleType) -> Iterator[types.ModuleType]:
    """The modules that a module has by name, or a class or function of theirs."""
    for value in list(vars(module).values()):
        if inspect.isclass(value) or inspect.isfunction(value):
            value = sys.modules.get(value.__module__)
        if isinstance(value, types.ModuleType):
            yield value
