"""The inputs of a simulation, as the command line and `muster.simulate` take them: one set of names and checks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import numpy as np

from muster.cluster import Cluster
from muster.cluster.shipped import parse_cluster
from muster.problems import ErrorCollector, InputError, Problem
from muster.runtime.recorded_holding import Knowledge
from muster.schedulers.contract import Scheduler
from muster.schedulers.registry import build, takes
from muster.simulation import Failures, Options, Progress, Rules, Run, rules_named, simulate
from muster.simulation.options import FIRST_ARRIVAL
from muster.speed.network.layers import read_layers
from muster.speed.network.models import NetworkModel
from muster.units import seconds_of
from muster.workload.models import Model, read_models, shipped_models
from muster.workload.trace import Trace, read_columns, read_trace
from muster.workload.traces.mapped import parse_mapping

Seconds: TypeAlias = float | str
"""A number of seconds, or a time such as `5min`."""
PathName: TypeAlias = str | os.PathLike[str]


class RunOptions(TypedDict, total=False):
    """The options of a run, named and checked as the flags of `muster simulate`: `restart_cost` is `--restart-cost`.

    Values are numbers and truth values, or the text that the command line takes.
    """

    map: Mapping[str, str] | str | None
    round: Seconds | None
    round_origin: Seconds
    restart_cost: Seconds | None
    measure: tuple[int, int] | str | None
    rules: str
    knowledge: str
    end_at_limit: bool
    skip_impossible: bool
    seed: int
    network: str
    congestion: float
    contention: bool
    layers: PathName | None
    models: PathName | None
    failures: tuple[Seconds, Seconds] | str | None
    checkpoint: Seconds
    resize_restarts: bool
    release_seconds_per_gpu: Seconds
    certify: bool


@dataclass(frozen=True)
class Inputs:
    """What a run goes by, apart from its scheduler."""

    named: Mapping[str, str]
    """The cluster and the files as the user named them."""
    options: Options
    cluster: Cluster
    settings: Mapping[str, str]
    """Of the scheduler, as text."""
    models: Mapping[str, Model]
    layers: Mapping[str, NetworkModel] | None
    """Network profiles for models that the shipped network models do not know."""
    trace: Trace

    def on(self, errors: ErrorCollector, cluster: str) -> Inputs:
        """The same inputs on another cluster; `errors` collects the errors."""
        named = {**self.named, "cluster": cluster}
        return replace(self, named=named, cluster=errors.of(parse_cluster, cluster))

    def scheduler(self, name: str) -> Scheduler:
        """The scheduler of a name with what the rules impose on it and the user's settings."""
        # Inputs that are not settled yet may lack what was refused.
        imposed = self.options.rules.settings_for(name) if self.options else {}
        return build(name, {**imposed, **(self.settings or {})})

    def with_settings_of(self, name: str, names: Sequence[str]) -> Inputs:
        """The same inputs for one of several schedulers: without the settings that only others of them have."""
        others = [other for other in names if other != name]
        settings = {
            key: value
            for key, value in (self.settings or {}).items()
            if _takes(name, key) or not any(_takes(other, key) for other in others)
        }
        return replace(self, settings=settings)

    def run(self, scheduler: Scheduler, progress: Callable[[Progress], None] | None = None) -> Run:
        """Simulate; the record also says what was named, so that a report can show the command."""
        run = simulate(self.trace, self.cluster, scheduler, self.options, progress, self.models, self.layers)
        return replace(run, record=replace(run.record, run={**run.record.run, "named": dict(self.named)}))


def _takes(name: str, key: str) -> bool:
    """Whether the scheduler of a name has this setting; one whose name means nothing has none."""
    try:
        return takes(name, key)
    except InputError:
        return False


def inputs_of(
    errors: ErrorCollector,
    jobs: object,
    cluster: PathName | Cluster,
    settings: Mapping[str, str],
    given: RunOptions,
) -> Inputs:
    """The inputs of a run. Mistakes are in `errors`: settle it before anything is run.

    `jobs` is a Trace, the path of a trace file, or columns (`read_columns`).
    """
    mapping = given.get("map")
    of_models = errors.of(_path, "--models", given.get("models"))
    layers = errors.of(_path, "--layers", given.get("layers"))
    models = errors.of(_known_models, of_models)
    named = {"cluster": None if isinstance(cluster, Cluster) else cluster, "map": _mapping_text(mapping)}
    named |= {"models": of_models, "layers": layers}
    return Inputs(
        named={what: str(name) for what, name in named.items() if name is not None},
        options=errors.of(options_of, given),
        cluster=errors.of(_cluster_of, cluster),
        settings=settings,
        models=models,
        layers=errors.of(read_layers, Path(layers)) if layers else None,
        trace=errors.of(_trace_of, jobs, mapping, models),
    )


def options_of(given: RunOptions) -> Options:
    """The settings of the simulation. InputError names every value that is refused, by its flag."""
    errors = ErrorCollector()
    values: Mapping[str, Any] = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in given.items()
        if value is not None
    }
    read = {
        field: errors.of(reader, flag_of(name), values[name])
        for name, (field, reader) in _READERS.items()
        if name in values
    }
    # What was refused above keeps its default here, so that the rest is checked as well.
    options = errors.of(Options, **{field: value for field, value in read.items() if value is not None})
    errors.settle()
    return options


def flag_of(name: str) -> str:
    """The flag of the command line for an option."""
    return "--" + name.replace("_", "-")


def _known_models(folder: PathName | None) -> Mapping[str, Model]:
    """The shipped models, and over them those of a folder."""
    return {**shipped_models(), **(read_models(Path(folder)) if folder else {})}


def knowledge_of(named: Mapping[str, str]) -> Knowledge:
    """What is known of the models of a recorded run, whose command named these files and folders.

    InputError if one of them is not there any more.
    """
    models, layers = named.get("models"), named.get("layers")
    known = {
        name.lower(): model
        for model in _known_models(models).values()
        for name in (model.name, *model.aliases)
    }
    profiles = read_layers(Path(layers)) if layers else {}
    return Knowledge(known, {name.lower(): profile for name, profile in profiles.items()})


def _cluster_of(cluster: object) -> Cluster:
    if isinstance(cluster, Cluster):
        return cluster
    if isinstance(cluster, str | os.PathLike):
        return parse_cluster(os.fspath(cluster))
    what = "allowed: a shipped name, a line such as 16x8gpu,24cpu,500gb, a file or a Cluster"
    raise InputError(Problem("--cluster", what, found=cluster))


def _trace_of(jobs: object, columns: object, models: Mapping[str, Model]) -> Trace:
    mapping = _columns_of(columns)
    if isinstance(jobs, Trace):
        if mapping is not None:
            what = "columns are mapped for files and tables; a Trace has the native ones"
            raise InputError(Problem("--map", what))
        return jobs
    if isinstance(jobs, str | os.PathLike):
        return read_trace(Path(jobs), mapping=mapping, models=models)
    return read_columns(jobs, mapping=mapping, models=models)


def _columns_of(mapping: object) -> Mapping[str, str] | None:
    if isinstance(mapping, str):
        return parse_mapping(mapping)
    if mapping is None:
        return None
    if not isinstance(mapping, Mapping) or not all(
        isinstance(name, str) for pair in mapping.items() for name in pair
    ):
        what = "allowed: pairs such as submit=arrival_s, as a text or a mapping of native names to columns"
        raise InputError(Problem("--map", what, found=mapping))
    return mapping


def _path(flag: str, value: object) -> PathName | None:
    if value is None or isinstance(value, str | os.PathLike):
        return value
    raise InputError(Problem(flag, "allowed: a path", found=value))


def _mapping_text(mapping: Mapping[str, str] | str | None) -> str | None:
    if isinstance(mapping, Mapping):
        return ",".join(f"{name}={column}" for name, column in mapping.items())
    return mapping


def _origin(flag: str, value: Seconds) -> Seconds:
    if value == FIRST_ARRIVAL:
        return value
    try:
        return seconds_of(flag, value)
    except InputError:
        what = f"allowed: {FIRST_ARRIVAL} or a number of seconds from 0 on"
        raise InputError(Problem(flag, what, found=value)) from None


def _range(flag: str, value: tuple[int, int] | str) -> tuple[int, int]:
    parts: Any = value.split(":") if isinstance(value, str) else value
    if isinstance(parts, list | tuple) and len(parts) == 2:
        first, last = (str(part).strip() for part in parts)
        if first.isdecimal() and last.isdecimal():
            return int(first), int(last)
    raise InputError(Problem(flag, "allowed: FIRST:LAST with two job ids, as 4000:4999", found=value))


def _failures(flag: str, value: tuple[Seconds, Seconds] | str) -> Failures:
    parts: Any = value.split(":", 1) if isinstance(value, str) else value
    if not (isinstance(parts, list | tuple) and len(parts) == 2):
        raise InputError(Problem(flag, "allowed: BETWEEN:REPAIR with two times, as 30d:2h", found=value))
    between, repair = parts
    return Failures(seconds_of(flag, between), seconds_of(flag, repair))


def _seed(flag: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise InputError(Problem(flag, "allowed: a whole number from 0 on", found=value))


def _fraction(flag: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise InputError(Problem(flag, "allowed: a fraction from 0 to below 1", found=value))


def _truth(flag: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InputError(Problem(flag, "allowed: True or False", found=value))


def _text(flag: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise InputError(Problem(flag, "allowed: a text", found=value))


def _rules(flag: str, value: object) -> Rules:
    return rules_named(_text(flag, value))


_READERS: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = {
    "round": ("round_seconds", seconds_of),
    "round_origin": ("round_origin", _origin),
    "restart_cost": ("restart_cost_seconds", seconds_of),
    "release_seconds_per_gpu": ("release_seconds_per_gpu", seconds_of),
    "measure": ("measure", _range),
    "rules": ("rules", _rules),
    "failures": ("failures", _failures),
    "checkpoint": ("checkpoint_seconds", seconds_of),
    "resize_restarts": ("resize_restarts", _truth),
    "knowledge": ("knowledge", _text),
    "end_at_limit": ("end_at_limit", _truth),
    "network": ("network", _text),
    "congestion": ("congestion", _fraction),
    "contention": ("contention", _truth),
    "skip_impossible": ("skip_impossible", _truth),
    "certify": ("certify", _truth),
    "seed": ("seed", _seed),
}
"""For each option its field in `Options`, and what reads its value."""
