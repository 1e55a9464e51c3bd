"""Which parts and presets exist, and how a name on the command line becomes a scheduler.

A part is found because its file lies in the folder of its slot. Others come from installed packages that
declare an entry point in the group `muster.schedulers`, or straight from a file: `path/to/file.py:Name`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import re
import sys
import typing
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from hashlib import sha256
from importlib.abc import InspectLoader
from math import inf
from types import MappingProxyType
from typing import Any

import muster.schedulers
from muster.problems import InputError, Problem, did_you_mean, with_hint
from muster.schedulers.composed import Composed, IndependentAllocator
from muster.schedulers.contract import Scheduler
from muster.schedulers.honours import KNOWN
from muster.schedulers.parts import (
    AdmissionFilter,
    Allocation,
    Backfill,
    GangAllocator,
    Order,
    Part,
    Placement,
)
from muster.schedulers.presets import Preset, known_presets
from muster.schedulers.user_code import (
    check_policy,
    class_problem,
    errors_of_policies,
    has_own_code,
    load_error,
    register,
)

SLOTS = ("admission", "queue_order", "backfill", "allocation", "placement")
_PARTS = (*SLOTS, "joint")
"""Folders of parts."""
_WHOLE = ("workers_and_servers", "time_sharing")
"""Folders of schedulers that are not composed of parts."""
ENTRY_POINTS = "muster.schedulers"
_FLAG = "--scheduler"
_NAME = re.compile(r'^    name: ClassVar\[str\] = "([^"]+)"', re.MULTILINE)
"""How the source of a part states its name."""
_OWN_SETTINGS: dict[str, tuple[type, Any, str]] = {
    # The default of the first two is the order's habit.
    "preemptive": (
        bool,
        None,
        "whether waiting jobs compete with running ones for their GPUs",
    ),
    "strict": (bool, None, "whether a job that does not fit blocks all behind it"),
    "promote_after_seconds": (
        float,
        inf,
        "a job that has waited so long since it last ran goes first until it has had a turn",
    ),
    "promote_for_good": (
        bool,
        False,
        "whether a promoted job goes first until it is done, as Synergy's authors do",
    ),
    "lease_seconds": (
        float,
        inf,
        "seconds for which a job holds its GPUs before it competes for them again; inf: it always competes",
    ),
    "migrate": (
        bool,
        False,
        "whether running jobs move to places with a faster network where that repays the interruption",
    ),
}

_METHODS: Mapping[type[Any], tuple[str, ...]] = {
    Order: ("key", "keys"),
    AdmissionFilter: ("select",),
    Allocation: ("resource_options",),
    GangAllocator: ("allocate",),
    Backfill: ("scheduler",),
}
"""Of which methods a part has one of its own, by kind of part."""

_LEASED_SETTINGS = ("promote_after_seconds", "migrate")
"""Those of them that a scheduler with delay timers has: its timers know the lease, which is never broken, and a job
that waits lets others pass."""


@dataclass(frozen=True)
class Setting:
    """One setting of a part."""

    name: str
    type_name: str
    default: Any
    """None: the habit of the scheduler's order."""
    sentence: str


@dataclass(frozen=True)
class PartInfo:
    """What `muster schedulers` shows of a part."""

    slot: str
    """`order`, or `allocation+placement` for a part that fills two."""
    name: str
    sentence: str
    settings: tuple[Setting, ...]
    needs: tuple[str, ...]


def parts(settings: Mapping[str, str] = MappingProxyType({})) -> list[PartInfo]:
    """All parts that exist, by slot and name; settings, as a preset's, take the place of the parts' defaults."""
    infos = [
        PartInfo(
            "+".join(kind.slots), kind.name, _sentence(kind), tuple(_settings(kind, settings)), kind.needs
        )
        for kind in _shipped().values()
    ]
    installed = {name: _installed_kind(name) for name in _entry_points()}
    for name, kind in {**_shipped_whole(), **installed}.items():
        slot = "+".join(kind.slots) if issubclass(kind, Part) else "whole scheduler"
        its_settings = tuple(_settings(kind, settings))
        infos.append(PartInfo(slot, name, _sentence(kind), its_settings, getattr(kind, "needs", ())))
    return sorted(
        infos, key=lambda info: (SLOTS.index(info.slot.split("+")[0]) if info.slot in SLOTS else 9, info.name)
    )


def presets() -> list[Preset]:
    """All presets, by name."""
    return [preset for _, preset in sorted(known_presets().items())]


def composed_settings() -> list[Setting]:
    """The settings that a scheduler composed of an order, an allocation and a placement has as a whole."""
    return _own(_OWN_SETTINGS, {})


def settings_of_whole(name: str) -> list[Setting]:
    """Those of them that the scheduler of a name takes, a preset's settings in place of their defaults."""
    taken = _of_the_whole([_kind(piece, name) for piece in _expanded(name).split("+")])
    return _own(taken, preset_settings(name))


def preset_settings(name: str) -> Mapping[str, str]:
    """The settings of the preset that a scheduler's name begins with; none where it begins with a part."""
    preset = known_presets().get(name.strip().partition("+")[0])
    return preset.settings if preset else {}


def _own(names: Iterable[str], settings: Mapping[str, str]) -> list[Setting]:
    """These settings of the whole, with others in place of their defaults."""
    found = []
    for name in names:
        kind, default, sentence = _OWN_SETTINGS[name]
        if name in settings:
            default = _parsed(kind, settings[name], name)
        found.append(Setting(name, kind.__name__, default, sentence))
    return found


def takes(name: str, setting: str) -> bool:
    """Whether the scheduler of a name has a setting: a part's, also as `PART.SETTING`, or one of the whole."""
    kinds = [_kind(piece, name) for piece in _expanded(name).split("+")]
    part, _, key = setting.rpartition(".")
    theirs = {field for kind in kinds if part in ("", kind.name) for field, *_ in _fields(kind)}
    return key in theirs or (not part and key in _of_the_whole(kinds))


def _of_the_whole(kinds: Iterable[type[Any]]) -> tuple[str, ...]:
    """The settings that a scheduler of these parts has as a whole."""
    if any(not issubclass(kind, Part) or "backfill" in kind.slots for kind in kinds):
        return ()
    leased = any(issubclass(kind, Placement) and kind.leases for kind in kinds)
    return _LEASED_SETTINGS if leased else tuple(_OWN_SETTINGS)


def build(name: str, settings: Mapping[str, str] | None = None) -> Scheduler:
    """The scheduler of a name: `ORDER+ALLOCATION+PLACEMENT`, a preset, or a third party's.

    Settings are `key=value` as text, a key being the setting's name or `PART.SETTING`.
    """
    called = name.strip() if name.strip().partition("+")[0] in known_presets() else ""
    settings = {**preset_settings(name), **(settings or {})}
    return _combined([_kind(piece, name) for piece in _expanded(name).split("+")], name, settings, called)


def clock_phases(name: str, settings: Mapping[str, str], count: int) -> list[dict[str, str]]:
    """The settings once for each phase of the scheduler's own clocks; once where it has none or they are set."""
    from muster.schedulers.backfill.slurm_cycles import SlurmScheduler

    made = build(name, settings)
    if not isinstance(made, SlurmScheduler) or {"main_phase", "bf_phase"} & set(settings):
        return [dict(settings)]
    return [{**settings, **phase} for phase in made.cycles.phases(count)]


def build_from(kind: type[Any], settings: Mapping[str, str] | None = None) -> Scheduler:
    """The scheduler of a class: a whole scheduler, or a part such as an order with the other parts by default."""
    return _combined(
        [_checked(kind, getattr(kind, "__name__", repr(kind)))], kind.__name__, dict(settings or {})
    )


def _combined(kinds: list[type[Any]], name: str, settings: dict[str, str], called: str = "") -> Scheduler:
    """The scheduler of some parts, or of one whole scheduler; `called` is the preset's name."""
    whole = [kind for kind in kinds if not issubclass(kind, Part)]
    if whole:
        if len(kinds) > 1:
            raise InputError(
                Problem(_FLAG, f"{whole[0].__name__} is a whole scheduler and takes no parts", found=name)
            )
        scheduler = _made(whole[0], settings)
        _refuse_unknown(settings, name, kinds, ())
        return typing.cast(Scheduler, scheduler)
    chosen = _by_slot(kinds, name)
    order = _made(chosen["queue_order"], settings)
    if "backfill" in chosen:
        return _backfilled(kinds, chosen, order, settings, name, called)
    for slot, default in (("allocation", "proportional"), ("placement", order.default_placement)):
        if slot not in chosen:
            chosen[slot] = _shipped_kind(default)
            kinds.append(chosen[slot])
    made = {kind: order if kind is chosen["queue_order"] else _made(kind, settings) for kind in kinds}
    allocation, placement = made[chosen["allocation"]], made[chosen["placement"]]
    leased = isinstance(placement, Placement) and placement.leases
    common = _LEASED_SETTINGS if leased else tuple(_OWN_SETTINGS)
    own = _own_settings(common, settings)
    _refuse_unknown(settings, name, kinds, common)
    selections = tuple(part for part in made.values() if isinstance(part, AdmissionFilter))
    if leased:
        resizing = None
        if isinstance(allocation, GangAllocator):
            resizing, allocation = allocation, _shipped_kind("proportional")()
        named = (*(part for part in made.values() if part is not placement), placement)
        from muster.schedulers.leased import Leased

        return Leased(order, allocation, placement, named, selections, resizing, preset=called, **own)
    habits = {"preemptive": order.preemptive, "strict": order.strict} | own
    _refuse_without_effect(own, habits["preemptive"], allocation)
    return Composed(
        order=order,
        parts=tuple(made.values()),
        allocator=allocation
        if allocation is placement
        else IndependentAllocator(allocation, placement, strict=habits["strict"]),
        selections=selections,
        preset=called,
        **habits,
    )


def _backfilled(
    kinds: list[type[Any]],
    chosen: dict[str, type[Any]],
    order: Any,
    settings: dict[str, str],
    name: str,
    called: str,
) -> Scheduler:
    """The scheduler of an order and a rule of backfill."""
    backfill = chosen["backfill"]
    for slot in ("allocation", "placement"):
        if slot not in chosen and slot in backfill.others:
            kinds.append(_shipped_kind(backfill.others[slot][0]))
    others = [kind.name for kind in kinds if kind not in (backfill, chosen["queue_order"])]
    allowed = [one for names in backfill.others.values() for one in names]
    if refused := [one for one in others if one not in allowed]:
        what = f"{backfill.name} takes {', '.join(allowed) or 'an order alone'}, not {', '.join(refused)}"
        raise InputError(Problem(_FLAG, what, found=name))
    made = {kind: order if kind is chosen["queue_order"] else _made(kind, settings) for kind in kinds}
    _refuse_unknown(settings, name, kinds, ())
    scheduler: Scheduler = made[backfill].scheduler(order, tuple(made.values()), called)
    return scheduler


def _own_settings(common: Iterable[str], settings: dict[str, str]) -> dict[str, Any]:
    """The settings of the scheduler as a whole, which are taken out of the given ones."""
    own = {key: _parsed(_OWN_SETTINGS[key][0], settings.pop(key), key) for key in common if key in settings}
    for key, allowed, right in (
        (
            "promote_after_seconds",
            "a number of seconds from 0 on",
            own.get("promote_after_seconds", 0.0) >= 0,
        ),
        ("lease_seconds", "a number of seconds above 0", own.get("lease_seconds", 1.0) > 0),
    ):
        if not right:
            raise InputError(Problem(f"--set {key}", f"{key}: allowed: {allowed}", found=f"{own[key]:g}"))
    return own


def _refuse_without_effect(own: Mapping[str, Any], preemptive: bool, allocation: object) -> None:
    """Refuse a lease where no running job competes, and migration where the allocation places jobs itself."""
    if own.get("lease_seconds", inf) < inf and not preemptive:
        what = "lease_seconds: this order never interrupts a running job; add --set preemptive=true"
        raise InputError(Problem("--set lease_seconds", what, found=f"{own['lease_seconds']:g}"))
    if own.get("migrate") and isinstance(allocation, GangAllocator):
        what = f"migrate: {allocation.name} places running jobs by its own rule; allowed: false"
        raise InputError(Problem("--set migrate", what, found="true"))


def _expanded(name: str) -> str:
    """The name with a preset in front spelled out."""
    first, plus, rest = name.strip().partition("+")
    if first in known_presets():
        return known_presets()[first].parts + plus + rest
    return name.strip()


def _by_slot(kinds: Sequence[type[Part]], name: str) -> dict[str, type[Any]]:
    for kind, times in Counter(kinds).items():
        if times > 1:
            raise InputError(Problem(_FLAG, f"{kind.name} is named more than once; name it once", found=name))
    chosen: dict[str, type[Part]] = {}
    for kind in kinds:
        for slot in kind.slots:
            if slot == "placement" and slot in chosen and _timers_first(chosen, kind):
                continue
            if slot in chosen and slot != "admission":
                said = slot.replace("_", " ")
                what = f"{chosen[slot].name} and {kind.name} both say the {said}; name one of them"
                raise InputError(Problem(_FLAG, what, found=name))
            chosen[slot] = kind
    if "queue_order" not in chosen:
        orders = ", ".join(sorted(kind.name for kind in _shipped().values() if "queue_order" in kind.slots))
        raise InputError(Problem(_FLAG, f"an order is missing, one of: {orders}", found=name))
    return chosen


def _timers_first(chosen: dict[str, type[Part]], kind: type[Part]) -> bool:
    """Let timers have the placement where the other part may leave it to them; whether that settles it."""
    pair = chosen["placement"], kind
    timers = [one for one in pair if issubclass(one, Placement) and one.leases]
    others = [one for one in pair if issubclass(one, GangAllocator) and one.resizes_alone]
    if len(timers) == len(others) == 1:
        chosen["placement"] = timers[0]
        return True
    return False


def _kind(piece: str, name: str) -> type[Any]:
    """The class behind one piece of a scheduler's name."""
    piece = piece.strip()
    if not piece:
        what = "a part is missing; allowed: parts joined by +, as las+tune"
        raise InputError(Problem(_FLAG, what, found=name))
    family = [preset for preset in known_presets() if preset.startswith(piece.partition(":")[0] + ":")]
    if family:
        hint = did_you_mean(piece, family)
        what = with_hint(f"no such preset; allowed: {', '.join(family)}", hint)
        raise InputError(Problem(_FLAG, what, found=piece))
    if ":" in piece:
        return _from_code(piece)
    if piece in _entry_points():
        return _installed_kind(piece)
    if piece in _stated() or piece in {**_shipped(), **_shipped_whole()}:
        return _shipped_kind(piece)
    if piece in known_presets():
        raise InputError(Problem(_FLAG, _preset_problem(piece, name), found=name))
    known = [*_shipped(), *_shipped_whole(), *_entry_points(), *known_presets()]
    hint = did_you_mean(piece, known) or "`muster schedulers` lists what there is"
    if piece.endswith(".py"):
        hint = f"name a class of the file too: {piece}:CLASS"
    found = piece if piece == name else f"{piece} in {name}"
    raise InputError(Problem(_FLAG, with_hint("no such part or preset", hint), found=found))


def _preset_problem(preset: str, name: str) -> str:
    """What is wrong with a preset that is not the first piece of a name."""
    pieces = [one.strip() for one in name.split("+")]
    if sum(one in known_presets() for one in pieces) > 1:
        return "allowed: one preset"
    return f"a preset comes first; allowed: {'+'.join([preset, *(one for one in pieces if one != preset)])}"


def _shipped_kind(name: str) -> type[Any]:
    """A shipped part or whole scheduler; only its module is imported where its source states the name."""
    kinds = _kinds_in(_stated()[name]) if name in _stated() else {}
    return kinds[name] if name in kinds else {**_shipped(), **_shipped_whole()}[name]


@cache
def _shipped() -> dict[str, type[Any]]:
    """Every part that has a file in a slot's folder, by name."""
    return {name: kind for module in _modules(_PARTS) for name, kind in _kinds_in(module).items()}


@cache
def _shipped_whole() -> dict[str, type[Any]]:
    """Every whole scheduler that has a file in one of their folders, by name."""
    return {name: kind for module in _modules(_WHOLE) for name, kind in _kinds_in(module).items()}


def _modules(folders: Iterable[str]) -> list[str]:
    """The modules of folders of shipped parts or schedulers."""
    packages = [importlib.import_module(f"{muster.schedulers.__name__}.{folder}") for folder in folders]
    return [
        f"{package.__name__}.{module.name}"
        for package in packages
        for module in pkgutil.iter_modules(package.__path__)
    ]


@cache
def _stated() -> Mapping[str, str]:
    """The module of each shipped part or scheduler whose source states its name in the usual way, by name."""
    found: dict[str, str] = {}
    for module in _modules((*_PARTS, *_WHOLE)):
        spec = importlib.util.find_spec(module)
        source = spec.loader.get_source(module) if spec and isinstance(spec.loader, InspectLoader) else None
        found |= dict.fromkeys(_NAME.findall(source or ""), module)
    return found


def _kinds_in(module_name: str) -> dict[str, type[Any]]:
    """The parts and whole schedulers that a module of Muster defines for others, by name."""
    classes: list[type[Any]] = [
        value
        for name, value in vars(importlib.import_module(module_name)).items()
        if inspect.isclass(value) and value.__module__ == module_name and not name.startswith("_")
    ]
    kinds = [kind for kind in classes if issubclass(kind, Part) or hasattr(kind, "decide")]
    named = [
        kind for kind in kinds if isinstance(getattr(kind, "name", None), str)
    ]  # not one that parts make
    return {kind.name: kind for kind in named if kind.name}


@cache
def _entry_points() -> Mapping[str, importlib.metadata.EntryPoint]:
    """The entry points of installed packages, by name."""
    return {point.name: point for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}


@cache
def _installed_kind(name: str) -> type[Any]:
    """What an installed package offers under a name."""
    kind = _checked(_entry_points()[name].load(), f"entry point {name}")
    register(importlib.import_module(kind.__module__), kind.__module__)
    return kind


def _from_code(piece: str) -> type[Any]:
    """A class from `path/to/file.py:Name` or `module:Name`."""
    where, _, name = piece.rpartition(":")
    file = ""
    try:
        if where.endswith(".py"):
            unique = f"muster_user_scheduler_{sha256(where.encode()).hexdigest()}"
            spec = importlib.util.spec_from_file_location(unique, where)
            if spec is None or spec.loader is None:
                raise ImportError(f"{where} is no Python file")
            file = spec.origin or ""
            # Dataclasses look their own module up.
            module = sys.modules[unique] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except (Exception, SystemExit) as error:
        if isinstance(error, FileNotFoundError) and error.filename == file:
            raise InputError(Problem(_FLAG, f"{where}: there is no such file", found=piece)) from error
        raise InputError(load_error(error, file, where)) from error
    register(module, where)
    if not hasattr(module, name):
        classes = [key for key, value in vars(module).items() if inspect.isclass(value)]
        what = f"{where} has no {name}; it has: {', '.join(classes) or 'no class'}"
        raise InputError(Problem(_FLAG, what, found=piece))
    return _checked(getattr(module, name), piece)


def _checked(kind: Any, where: str) -> type[Any]:
    if not inspect.isclass(kind) or not (issubclass(kind, Part) or hasattr(kind, "decide")):
        what = "allowed: a class that is a part (muster.schedulers.parts) or has decide(snapshot, state)"
        raise InputError(Problem(_FLAG, what, found=where))
    _check_honours(kind, where)
    return kind


def _check_honours(kind: type[Any], where: str) -> None:
    """InputError if a class states to honour what there is not; a property is not looked at."""
    stated = getattr(kind, "honours", ())
    known = isinstance(stated, Collection) and all(one in tuple(KNOWN) for one in stated)
    if not known and not isinstance(stated, property):
        names = ", ".join(repr(name) for name in sorted(KNOWN))
        what = f"allowed: a set of {names} (muster.schedulers.honours)"
        raise InputError(Problem(where, what, column="honours", found=stated))


def _sentence(kind: type[Any]) -> str:
    return (inspect.getdoc(kind) or "").split("\n", 1)[0]


def _fields(kind: type[Any]) -> Iterable[tuple[str, Any, Any, str]]:
    """Name, type, default, sentence of each setting of a part."""
    if not hasattr(kind, "__dataclass_fields__"):
        return
    types_by_name = typing.get_type_hints(kind)
    for entry in fields(kind):
        default = entry.default_factory() if entry.default_factory is not MISSING else entry.default
        yield entry.name, types_by_name[entry.name], default, entry.metadata.get("sentence", "")


def _settings(kind: type[Any], given: Mapping[str, str]) -> Iterable[Setting]:
    """The settings of a part, with those given in place of its defaults."""
    for name, annotation, default, sentence in _fields(kind):
        for key in _keys(kind, name):
            if key in given:
                default = _parsed(annotation, given[key], key)
        if typing.get_origin(annotation) is typing.Literal:
            type_name = " or ".join(typing.get_args(annotation))
        else:
            type_name = annotation.__name__ if isinstance(annotation, type) else str(annotation)
        yield Setting(name, type_name, default, sentence)


def _keys(kind: type[Any], name: str) -> tuple[str, str]:
    """How a user names a setting of a part; the last one counts."""
    return f"{getattr(kind, 'name', '') or kind.__name__}.{name}", name


def _made(kind: type[Any], settings: dict[str, str]) -> Any:
    """A part with its settings, which are taken out of the given ones."""
    given: dict[str, Any] = {}
    typed: dict[str, str] = {}
    for name, annotation, _, _ in _fields(kind):
        for key in _keys(kind, name):
            if key in settings:
                typed[name] = settings.pop(key)
                given[name] = _parsed(annotation, typed[name], key)
    with errors_of_policies():
        made = _with_settings(kind, given, typed)
        if has_own_code(made):
            check_policy(made, _METHODS)
    return made


def _with_settings(kind: type[Any], given: Mapping[str, Any], typed: Mapping[str, str]) -> Any:
    """A part with these values; one that it refuses is the user's problem, with the text as it was typed."""
    needed = [
        name
        for name, one in inspect.signature(kind).parameters.items()
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if missing := [name for name in needed if name not in given]:
        raise class_problem(kind, f"{', '.join(missing)}: no default; allowed: settings that have one")
    try:
        return kind(**given)
    except ValueError as error:
        if not given:
            raise
        wrong = _wrong_settings(kind, given, str(error))
        found = ", ".join(typed[name] for name in wrong)
        raise InputError(Problem(f"--set {', '.join(wrong)}", str(error), found=found)) from error


def _wrong_settings(kind: type[Any], given: Mapping[str, Any], said: str) -> list[str]:
    """The settings that alone bring about what a part said; all given ones where only several together do."""
    wrong = []
    for name, value in given.items():
        try:
            kind(**{name: value})
        except ValueError as error:
            if str(error) == said:
                wrong.append(name)
    return wrong or list(given)


def _parsed(kind: Any, text: str, key: str) -> Any:
    """A setting's value from its text."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    try:
        if kind is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[
                text.lower()
            ]
        if kind in (int, float):
            value = kind(text)
            if value != value:
                raise ValueError(text)
            return value
        if origin is tuple:
            return tuple(_parsed(arguments[0], item, key) for item in text.split(",") if item)
        if origin is dict:
            pairs = [item.rpartition(":") for item in text.split(",") if item]
            if not all(colon and name for name, colon, _ in pairs):
                raise ValueError(text)
            return {name: _parsed(arguments[1], value, key) for name, _, value in pairs}
        if typing.Literal is origin and text not in arguments:
            raise ValueError(text)
    except (ValueError, KeyError) as error:
        wanted = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind)
        if wanted is None:
            wanted = {tuple: "numbers, as 1,2,3", dict: "names with numbers, as a:1,b:2"}.get(origin) or (
                "one of " + ", ".join(map(str, arguments))
            )
        raise InputError(Problem(f"--set {key}", f"{key} takes {wanted}", found=text)) from error
    return text


def _refuse_unknown(
    settings: Mapping[str, str], name: str, kinds: Iterable[type[Any]], common: Iterable[str]
) -> None:
    if not settings:
        return
    known = sorted({field for kind in kinds for field, *_ in _fields(kind)} | set(common))
    problems = []
    for key, value in settings.items():
        hint = did_you_mean(key.rpartition(".")[2], known)
        what = with_hint(f"{name} has no such setting; allowed: {', '.join(known)}", hint)
        problems.append(Problem(f"--set {key}", what, found=value))
    raise InputError(*problems)
