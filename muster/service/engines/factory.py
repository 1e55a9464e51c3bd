"""What an installed engine offers before it is opened: its capabilities, its options and how to open it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.cluster import Cluster
from muster.service.engines.interface import Engine, EngineCapabilities
from muster.service.store.rows import JobRow
from muster.workload.models import Model


@dataclass(frozen=True)
class EngineOptions:
    """What `muster serve` was given for its engine; None: not given."""

    gpus: int | None = None
    cpus: float | None = None
    memory_gb: float | None = None
    fake_nodes: str | None = None
    """A cluster, as `--cluster` takes it."""
    partition: str | None = None
    """Of Slurm."""
    address: str | None = None
    """Of the head of a Ray cluster."""
    links: Path | None = None
    """A cluster file, whose links count."""

    def given(self) -> dict[str, object]:
        """The values that were given, by option."""
        values = {
            "--gpus": self.gpus,
            "--cpus": self.cpus,
            "--memory": self.memory_gb,
            "--fake-nodes": self.fake_nodes,
            "--partition": self.partition,
            "--address": self.address,
            "--links": None if self.links is None else str(self.links),
        }
        return {option: value for option, value in values.items() if value is not None}


@dataclass(frozen=True)
class EngineContext:
    """What the daemon provides to its engine."""

    folder: Path
    """The engine's own, on the daemon's disk; it may not exist yet."""
    job_row: Callable[[int], JobRow]
    """The store's row of a job that has not ended."""
    models: Callable[[], Mapping[str, Model]]
    """The models known now, by lower-case name."""
    is_job: Callable[[int, str], bool] = lambda _job, _whose: False
    """Whether the store has a job of this number that has this `Launch.whose`."""
    jobs: Path | None = None
    """Where the jobs' folders are, for an engine with other nodes to have them try it; None: they do not."""
    warn: Callable[[str], None] = lambda _: None
    """Takes a sentence for the operator, without its full stop."""


@dataclass(frozen=True)
class ConfiguredEngine:
    """An engine whose options are checked."""

    cluster: Cluster
    """Its nodes and their capacity."""
    open: Callable[[EngineContext], Engine]
    """Opens it, once home and store belong to this daemon alone; finds the starts that exist.

    OSError if the engine cannot be used now.
    """


@dataclass(frozen=True)
class EngineFactory:
    """What an entry point of the group `muster.engines` names."""

    capabilities: EngineCapabilities
    options: frozenset[str]
    """Options of `muster serve` that `configure` reads, for example `--gpus`; the registry rejects the others."""
    configure: Callable[[EngineOptions], ConfiguredEngine]
    """Checks the options and changes nothing. InputError if they cannot be used."""
