"""What the engine remembers of starts: a file for each, whole or absent, so that a new engine knows the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from muster.cluster.ledger import NodeAllocation
from muster.files import write_aside
from muster.service.engines.interface import Exit, Observed


@dataclass
class StartRecord:
    """A start, and the run of a Slurm job that it is."""

    job: int
    epoch: int
    comment: str
    """What the job says in Slurm: with its number it names it."""
    allocations: list[dict[str, Any]]
    """What it was given on each node."""
    launched: float
    """Unix seconds. Slurm's own times are whole seconds of another clock, and may come before it."""
    slurm_job: int = 0
    """Its number in Slurm; 0: not submitted yet."""
    restarts: int = 0
    """Slurm's count of restarts during this start; more means that Slurm has restarted the job itself."""
    released: bool = False
    """Slurm has taken the order to run it; until then nothing has happened."""
    sent: list[str] = field(default_factory=list)
    """Signals that it was sent."""
    stopping: bool = False
    taken_back: bool = False
    """Muster has ordered to hold its job while that waited."""
    held_by_owner: bool = False
    """Its owner has requeued and held it."""
    requeued: str = ""
    """Why Slurm is ordered to hold its job, if it may be requeued, where Muster has not asked it to stop."""
    forgotten: bool = False
    """Slurm has begun it a second time, and it is to end for that."""
    killed: bool = False
    began: float = 0.0
    """Unix seconds of its first process, by the clock of Slurm; 0: none yet."""
    gpu_ids: dict[str, list[int]] = field(default_factory=dict)
    """The GPUs that Slurm chose, by node."""
    amounts: dict[str, dict[str, float]] = field(default_factory=dict)
    """CPUs and memory that it has instead of what it was given, by node."""
    end: dict[str, Any] | None = None

    @property
    def key(self) -> tuple[int, int]:
        """Job and epoch."""
        return self.job, self.epoch

    @property
    def lives(self) -> bool:
        """Its end was not seen yet."""
        return self.end is None

    @property
    def nodes(self) -> list[str]:
        """Names of the nodes that it was given."""
        return [here["node"] for here in self.allocations]

    def ended(self, how: Exit, at: float, status: int | None, message: str = "") -> None:
        """Note how it ended; the first end counts."""
        if self.end is None:
            self.end = {"ended": how.value, "since": at, "status": status, "message": message}

    def observed(self, began: float, pending: str = "", *, place_taken: bool = False) -> Observed:
        """Return it as the controller sees it; `began`: by this machine's clock, as in `Observed`."""
        if self.end is not None:
            end = {**self.end, "ended": Exit(self.end["ended"])}
            return Observed(self.job, self.epoch, **end, allocations=self._real())
        return Observed(
            self.job,
            self.epoch,
            None,
            began,
            pending=pending,
            place_taken=place_taken,
            allocations=self._real(),
        )

    @property
    def held(self) -> tuple[NodeAllocation[str], ...]:
        """What it has; while that is not known, what it was given."""
        return self._real() or tuple(_allocation(here) for here in self.allocations)

    def _real(self) -> tuple[NodeAllocation[str], ...] | None:
        """Return what it has, with the GPUs that Slurm chose; None while they are not known."""
        if not self.gpu_ids:
            return None
        return tuple(
            _allocation({**here, **self.amounts.get(name, {}), "gpu_ids": self.gpu_ids.get(name, [])})
            for here in self.allocations
            for name in [here["node"]]
        )


class Records:
    """All starts that are not forgotten, by job and epoch."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._starts = {record.key: record for record in self._read()}

    def __iter__(self) -> Iterator[StartRecord]:
        return iter(self._starts.values())

    def get(self, job: int, epoch: int) -> StartRecord | None:
        """Return a start, if it is remembered."""
        return self._starts.get((job, epoch))

    def living(self, job: int) -> StartRecord | None:
        """Return the start of a job that has not ended."""
        return next((one for one in self if one.job == job and one.lives), None)

    def newest(self, job: int) -> StartRecord | None:
        """Return the last start of a job that is remembered."""
        return max((one for one in self if one.job == job), key=lambda one: one.epoch, default=None)

    def add(self, record: StartRecord) -> None:
        """Remember a start that `keep` is to write."""
        self._starts[record.key] = record

    def keep(self, record: StartRecord) -> None:
        """Write a start; it is on disk when this returns."""
        with write_aside(self._path(record)) as aside:
            aside.write_text(json.dumps(asdict(record)))
        self._starts[record.key] = record

    def drop(self, record: StartRecord) -> None:
        """Forget a start."""
        self._path(record).unlink(missing_ok=True)
        self._starts.pop(record.key, None)

    def _path(self, record: StartRecord) -> Path:
        return self._folder / f"{record.job}.{record.epoch}.json"

    def _read(self) -> Iterator[StartRecord]:
        for path in sorted(self._folder.glob("*.json")):
            yield StartRecord(**json.loads(path.read_text()))


def as_fields(allocation: NodeAllocation[str]) -> dict[str, Any]:
    """Return an allocation as a start's record keeps it."""
    return {**asdict(allocation), "gpu_ids": [int(gpu) for gpu in allocation.gpu_ids]}


def _allocation(fields: dict[str, Any]) -> NodeAllocation[str]:
    lists = {name: tuple(fields[name]) for name in ("gpu_ids", "further")}
    return NodeAllocation(**{**fields, **lists})
