"""One simulation of a sweep: a workload, a cluster, a scheduler, options; its result is the run's summary."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from muster.cluster.shipped import parse_cluster
from muster.report import summarise
from muster.schedulers.registry import build
from muster.simulation import Options, simulate
from muster.workload.trace import Trace, read_trace
from muster.workload.traces.mapped import parse_mapping

GENERATORS = {"synergy": "synergy", "philly-like": "philly_like", "mixed": "mixed"}
"""Kind of workload, and the module of `muster.workload.generators` that makes it."""


class Workload(Protocol):
    """Where a cell's jobs come from."""

    def inputs(self) -> Mapping[str, Any]:
        """What determines the trace, ready for JSON."""
        ...

    def trace(self) -> Trace:
        """The trace."""
        ...


@dataclass(frozen=True)
class Made:
    """A workload from a generator."""

    kind: str
    arguments: Mapping[str, Any]
    """Of the generator's `generate`, the seed included."""

    def inputs(self) -> Mapping[str, Any]:
        """What determines the trace."""
        return {"kind": self.kind, **self.arguments}

    def trace(self) -> Trace:
        """The trace, made once for all cells of a process that follow each other."""
        return _made(self.kind, json.dumps(dict(self.arguments)))


@dataclass(frozen=True)
class FromFile:
    """A workload from a trace file."""

    path: Path
    columns: str | None = None
    """As `--map` takes them."""

    def inputs(self) -> Mapping[str, Any]:
        """The name, which the record shows, the content and what its columns mean."""
        return {"file": str(self.path), "sha256": _sha256_of(self.path), "map": self.columns}

    def trace(self) -> Trace:
        """The trace, read once for all cells of a process that follow each other."""
        return _read(self.path, self.columns)


@dataclass(frozen=True)
class Cell:
    """A simulation as a piece of a sweep."""

    workload: Workload
    cluster: str
    """As `--cluster` takes it."""
    scheduler: str
    """As `--scheduler` takes it."""
    options: Options = field(default_factory=Options)
    settings: Mapping[str, str] = field(default_factory=dict)
    """As `--set` takes them."""

    def inputs(self) -> Mapping[str, Any]:
        """Everything by its content: a cluster file, a trace or a policy that changed makes another cell."""
        policies = [piece.rpartition(":")[0] for piece in self.scheduler.split("+") if ":" in piece]
        return {
            "workload": self.workload.inputs(),
            "cluster": parse_cluster(self.cluster).to_dict(),
            "scheduler": self.scheduler,
            "policy_files": [_sha256_of(Path(path)) for path in policies if path.endswith(".py")],
            "settings": dict(self.settings),
            "options": {**asdict(self.options), "rules": self.options.rules.name},
        }

    def run(self) -> Mapping[str, Any]:
        """The summary of the run, which has no trace of when and how fast it ran."""
        scheduler = build(
            self.scheduler, {**self.options.rules.settings_for(self.scheduler), **self.settings}
        )
        run = simulate(self.workload.trace(), parse_cluster(self.cluster), scheduler, self.options)
        return summarise(run.record)


@lru_cache(maxsize=1)
def _made(kind: str, arguments: str) -> Trace:
    module = import_module(f"muster.workload.generators.{GENERATORS[kind]}")
    trace: Trace = module.generate(**json.loads(arguments))
    return trace


@lru_cache(maxsize=1)
def _read(path: Path, columns: str | None) -> Trace:
    return read_trace(path, mapping=parse_mapping(columns) if columns else None)


@lru_cache
def _sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
