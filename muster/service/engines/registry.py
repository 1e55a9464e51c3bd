"""Which engines are installed, and which one a name means.

An engine is an entry point of the group `muster.engines` that names an `EngineFactory`. Muster's own engines are found
the same way as those of other packages. This module alone compares the names of engines; all other code asks
`EngineCapabilities`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata

from muster.problems import InputError, Problem, did_you_mean
from muster.service.engines.factory import ConfiguredEngine, EngineFactory, EngineOptions
from muster.service.engines.interface import EngineCapabilities

ENTRY_POINTS = "muster.engines"
LOCAL, FAKE = "local", "fake"
_FLAG = "--engine"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
"""A name is also the name of a folder."""


def engine_names() -> tuple[str, ...]:
    """The names of all installed engines, in alphabetical order."""
    return tuple(sorted(_entry_points()))


def engine_factory(name: str) -> EngineFactory:
    """The factory of an installed engine. InputError if there is none, or if it cannot be loaded."""
    point = _entry_points().get(name)
    if point is None:
        raise InputError(Problem(_FLAG, _not_installed(name), found=name))
    try:
        factory = point.load()
    except Exception as error:
        what = f"{point.value} cannot be loaded: {type(error).__name__}: {error}"
        raise InputError(Problem(_FLAG, what, found=name)) from error
    if not isinstance(factory, EngineFactory):
        what = f"{point.value} is a {type(factory).__name__}; an entry point of {ENTRY_POINTS} names an EngineFactory"
        raise InputError(Problem(_FLAG, what, found=name))
    return factory


def configured_engine(name: str, options: EngineOptions) -> ConfiguredEngine:
    """The engine of a name with its options. InputError for each option that it does not take."""
    factory = engine_factory(name)
    allowed = ", ".join(sorted(factory.options)) or "none"
    problems = [
        Problem(option, f"engine {name} does not take this option; allowed: {allowed}", found=value)
        for option, value in options.given().items()
        if option not in factory.options
    ]
    if problems:
        raise InputError(*problems)
    return factory.configure(options)


def capabilities_of(name: str | None) -> EngineCapabilities | None:
    """The capabilities of the engine that a store is bound to; None if there is none, or it is not installed here."""
    return engine_factory(name).capabilities if name in _entry_points() else None


def check_bound_engine(bound: str | None, name: str, hint: str) -> None:
    """Raises InputError if a store is bound to another engine than this one: their starts have nothing in common."""
    if bound not in (None, name):
        what = (
            f"the jobs of this store run on engine {bound}, and two engines never share a store. Hint: {hint}"
        )
        raise InputError(Problem(_FLAG, what, found=name))


def _not_installed(name: str) -> str:
    known = engine_names()
    if LOCAL not in known:
        return "this installation of Muster lists no engines. Hint: install it again, for example by make install"
    hint = did_you_mean(name, known)
    return f"no such engine; allowed: {', '.join(known)}" + (f". Hint: {hint}" if hint else "")


@cache
def _entry_points() -> dict[str, metadata.EntryPoint]:
    """By name. InputError if two packages register one name, or if a name cannot be a folder's."""
    points: dict[str, metadata.EntryPoint] = {}
    for point in metadata.entry_points(group=ENTRY_POINTS):
        if not _NAME.fullmatch(point.name):
            what = f"the entry point {point.value} has this name; allowed: lower-case letters, digits, . _ -"
            raise InputError(Problem(_FLAG, what, found=point.name))
        other = points.setdefault(point.name, point)
        if other.value != point.value:
            what = f"two installed packages register this name, {other.value} and {point.value}. Hint: remove one"
            raise InputError(Problem(_FLAG, what, found=point.name))
    return points
