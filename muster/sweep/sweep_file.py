"""The sweep file: TOML in, every field checked; all mistakes are raised together.

    schedulers = ["fifo+proportional", "fifo+tune"]   # the first is what the others are compared with
    clusters = "synergy-16"
    seeds = 5

    [[synergy]]
    jobs = 1000
    loads = [2, 4, 6, 8]

Every list is an axis; the sweep is all combinations (`docs/how-to/sweep.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from muster.checked_toml import Way, field_problem, parse_toml
from muster.cluster.shipped import parse_cluster
from muster.files import read_text
from muster.patterns import WORD
from muster.problems import InputError, Problem
from muster.schedulers.registry import build
from muster.simulation import Failures, Options, rules_named
from muster.simulation.options import FIRST_ARRIVAL
from muster.units import parse_seconds
from muster.workload.generators.draws import LARGEST_COUNT
from muster.workload.trace import read_trace
from muster.workload.traces.mapped import parse_mapping

LARGEST_SEED = 2**32

T = TypeVar("T")


def _listed(value: object) -> object:
    """One value stands for a list of it; a value may not stand twice."""
    values = value if isinstance(value, list) else [value]
    twice = [entry for at, entry in enumerate(values) if entry in values[:at]]
    if twice:
        raise ValueError(f"{twice[0]!r} stands twice; each value once")
    return values


def _seeds(value: object) -> object:
    """A number says how many seeds, from 0 on."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= 10_000:
            raise ValueError("allowed: a number of seeds from 1 to 10,000, or a list of seeds")
        return list(range(value))
    return _listed(value)


def _split(text: str) -> str:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() for part in parts) or not any(map(int, parts)):
        raise ValueError("allowed: three whole numbers (image, language, speech), not all 0, as '20,70,10'")
    return ",".join(str(int(part)) for part in parts)


def _range(text: str) -> str:
    first, colon, last = text.partition(":")
    if not (colon and first.strip().isdecimal() and last.strip().isdecimal()):
        raise ValueError("allowed: two job ids, as '4000:4999'")
    return text


def _between_and_repair(text: str) -> str:
    between, _, repair = text.partition(":")
    try:
        parse_seconds(between), parse_seconds(repair)
    except ValueError:
        raise ValueError("allowed: BETWEEN:REPAIR with two times, as 30d:2h") from None
    return text


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("allowed: a text, a number, true or false")


Axis = Annotated[list[T], BeforeValidator(_listed), Field(min_length=1)]
Name = Annotated[str, Field(min_length=1, pattern=WORD)]
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT, strict=True)]
Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False, strict=True)]
Seconds = Annotated[float, BeforeValidator(parse_seconds)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SchedulerTable(_Table):
    """A scheduler: its name alone, or a table with settings."""

    name: Name
    label: Name | None = None
    """What tables and charts call it; left out: its name and settings."""
    settings: dict[Name, Annotated[str, BeforeValidator(_setting)]] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    def called(self) -> str:
        """The label, made up where none is given."""
        settings = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return self.label or (f"{self.name} ({settings})" if settings else self.name)


class SynergyTable(_Table):
    """Synergy's generator."""

    jobs: Count
    loads: Axis[Rate] = [9.0]
    """Jobs an hour."""
    splits: Axis[Annotated[str, AfterValidator(_split)]] = ["20,70,10"]
    multi_gpu: Axis[Annotated[bool, Field(strict=True)]] = [False]
    static: bool = Field(default=False, strict=True)


class PhillyTable(_Table):
    """The generator of workloads like Philly."""

    jobs: Count
    loads: Axis[Rate] = [56.5]
    """Jobs an hour."""
    tenants: Axis[Count] = [15]


class MixedTable(_Table):
    """The mixed generator."""

    jobs: Count
    gpus: Count
    loads: Axis[Rate] = [0.8]
    """Part of the GPUs' time."""


class OptionsTable(_Table):
    """One way to simulate; as the flags of `muster simulate`."""

    name: Name | None = None
    round_seconds: Seconds | None = None
    round_origin: float | str = 0.0
    restart_cost_seconds: Seconds | None = None
    resize_restarts: bool = Field(default=False, strict=True)
    release_seconds_per_gpu: Seconds = 0.0
    measure: Annotated[str, AfterValidator(_range)] | None = None
    rules: str = "exact"
    knowledge: str = "oracle"
    end_at_limit: bool = Field(default=False, strict=True)
    failures: Annotated[str, AfterValidator(_between_and_repair)] | None = None
    checkpoint_seconds: Seconds = 3600.0
    skip_impossible: bool = Field(default=False, strict=True)
    network: str = "auto"
    congestion: float = 0.0
    contention: bool = Field(default=False, strict=True)

    def options(self, seed: int) -> Options:
        """The options of a run."""
        given = self.model_dump(exclude={"name", "measure", "rules", "failures"})
        if self.measure:
            first, _, last = self.measure.partition(":")
            given["measure"] = int(first), int(last)
        if self.failures:
            between, _, repair = self.failures.partition(":")
            given["failures"] = Failures(parse_seconds(between), parse_seconds(repair))
        return Options(**given, rules=rules_named(self.rules), seed=seed)


class SweepFile(_Table):
    """The whole file."""

    title: Name | None = None
    schedulers: list[SchedulerTable] = Field(min_length=1)
    clusters: Axis[Name]
    seeds: Annotated[
        list[Annotated[int, Field(ge=0, lt=LARGEST_SEED, strict=True)]],
        BeforeValidator(_seeds),
        Field(min_length=1),
    ] = [0]
    traces: Annotated[list[Name], BeforeValidator(_listed)] = []
    map: Name | None = None
    """Columns of the traces, as `--map` takes them."""
    synergy: list[SynergyTable] = []
    philly_like: list[PhillyTable] = []
    mixed: list[MixedTable] = []
    options: list[OptionsTable] = Field(default=[OptionsTable()], min_length=1)


def read_sweep_file(path: Path, columns: str | None = None) -> SweepFile:
    """The file, checked as far as it can be without simulating; `columns` is its `map` where it has none."""
    text, where = read_text(path), str(path)
    file = parse_toml(text, where, SweepFile)
    if columns is not None:
        if file.map:
            what = "the sweep file has a map of its own; give one of the two"
            raise InputError(Problem("--map", what))
        if not file.traces:
            raise InputError(Problem("--map", _NO_TRACES, found=columns))
        file = file.model_copy(update={"map": columns})
    problems = list(_problems(file, text, where))
    if problems:
        raise InputError(*problems)
    return file


_NO_TRACES = "its columns are those of traces, and the sweep has none; leave it out"
_FIELD_OF_FLAG = {
    "--round": "round_seconds",
    "--round-origin": "round_origin",
    "--restart-cost": "restart_cost_seconds",
    "--release-seconds-per-gpu": "release_seconds_per_gpu",
    "--measure": "measure",
    "--rules": "rules",
    "--knowledge": "knowledge",
    "--end-at-limit": "end_at_limit",
    "--failures": "failures",
    "--checkpoint": "checkpoint_seconds",
    "--network": "network",
    "--congestion": "congestion",
    "--cluster": "",
    "--scheduler": "name",
    "--set": "settings",
}
"""Where the checks of the command line's flags stand in a sweep file, within their table."""


def _problems(file: SweepFile, text: str, where: str) -> Iterator[Problem]:
    """What is wrong although each field alone is well formed."""
    if not (file.traces or file.synergy or file.philly_like or file.mixed):
        what = "a workload is missing: traces, [[synergy]], [[philly_like]] or [[mixed]]"
        yield Problem(where, what)
    if file.map and not file.traces:
        yield field_problem(text, where, ("map",), _NO_TRACES, file.map)
    for way, what, found in _repeated_names(file):
        yield field_problem(text, where, way, what, found)
    for way, check in _checks(file):
        try:
            check()
        except InputError as bad:
            for problem in bad.problems:
                yield _at_its_field(problem, way, text, where)


def _repeated_names(file: SweepFile) -> Iterator[tuple[Way, str, str | None]]:
    """Entries that are called as one before them."""
    labels = [scheduler.called() for scheduler in file.schedulers]
    names = [table.name for table in file.options]
    for kind, called, what in (
        ("schedulers", labels, "another one is called the same; give each a label"),
        ("options", names, "another one is called the same or has no name either; give each a name"),
    ):
        for at, label in enumerate(called):
            if label in called[:at]:
                yield (kind, at), what, label


def _checks(file: SweepFile) -> Iterator[tuple[Way, Callable[[], object]]]:
    """What a run would do with each entry before it simulates; a check raises InputError."""
    for at, trace in enumerate(file.traces):
        yield ("traces", at), partial(_read, trace, file.map)
    for at, cluster in enumerate(file.clusters):
        yield ("clusters", at), partial(parse_cluster, cluster)
    for at, table in enumerate(file.options):
        yield ("options", at), partial(_check_options, table)
    for at, scheduler in enumerate(file.schedulers):
        yield ("schedulers", at), partial(_build, scheduler)


def _at_its_field(problem: Problem, way: Way, text: str, where: str) -> Problem:
    """A problem with a flag as one of the field that stands for it in the table at `way`."""
    field = _FIELD_OF_FLAG.get(problem.where.partition(" ")[0])
    if field is None:
        return problem
    return field_problem(text, where, (*way, field) if field else way, problem.what, problem.found)


def _check_options(table: OptionsTable) -> None:
    origin = table.round_origin
    if isinstance(origin, str) and origin != FIRST_ARRIVAL:
        what = f"allowed: '{FIRST_ARRIVAL}' or a number of seconds"
        raise InputError(Problem("--round-origin", what, found=origin))
    table.options(seed=0)


def _read(trace: str, columns: str | None) -> None:
    read_trace(Path(trace), mapping=parse_mapping(columns) if columns is not None else None)


def _build(scheduler: SchedulerTable) -> None:
    settings: Mapping[str, str] = scheduler.settings
    build(scheduler.name, settings)
