"""What the daemon remembers of starts on Ray: a file for each, whole or absent, so that a new daemon knows the same."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from muster.files import write_aside
from muster.service.engines.interface import Exit, Launch, Observed


@dataclass
class PartRecord:
    """What is known of the part of a start on one node."""

    launch: Launch
    """As the agent of its node gets it."""
    sent: bool = False
    """The agent may have it; until then nothing has happened there."""
    delivered: bool = False
    """The agent has had it."""
    known: Observed | None = None
    """As the agent has reported it last, or as it was given up."""
    obstacle: str = ""
    """Why the agent does not have it."""

    @property
    def node(self) -> str:
        """The name of its node."""
        return self.launch.allocations[0].node

    @property
    def lives(self) -> bool:
        """Its end is not known."""
        return self.known is None or self.known.ended is None

    def end(self, how: Exit, message: str) -> None:
        """Note an end that no agent has reported."""
        launch = self.launch
        self.known = Observed(launch.job, launch.epoch, how, time.time(), None, message)


@dataclass
class RayStart:
    """A start with all its parts."""

    job: int
    epoch: int
    launched: float
    """Unix seconds."""
    parts: list[PartRecord]
    stopping: bool = False
    """It was asked to stop, or killed: what has not begun never begins."""
    changed: bool = field(default=True, compare=False)
    """It differs from its file."""

    @property
    def key(self) -> tuple[int, int]:
        """Job and epoch."""
        return self.job, self.epoch

    @property
    def lives(self) -> bool:
        """One of its parts lives."""
        return any(part.lives for part in self.parts)

    @property
    def lost(self) -> bool:
        """One of its parts was given up, so the others have nothing to wait for."""
        return any(part.known is not None and part.known.ended is Exit.LOST for part in self.parts)

    def observed(self) -> Observed:
        """Return the start as the controller sees it."""
        known = [part.known for part in self.parts if part.known is not None]
        if not self.lives:
            return merged_end(known)
        began = len(known) == len(self.parts)
        since = min((one.since for one in known if one.ended is None), default=self.launched)
        pending = "; ".join(
            f"node {part.node}: {part.obstacle}"
            for part in self.parts
            if part.known is None and part.obstacle
        )
        return Observed(
            self.job, self.epoch, None, since if began else self.launched, pending="" if began else pending
        )


def merged_end(ends: Sequence[Observed]) -> Observed:
    """Return how a start ended whose parts ended like this.

    A part that is lost decides, as the others fail without it; then the first one that ended badly by itself.
    """
    last = max(end.since for end in ends)
    for deciding in ((Exit.LOST,), (Exit.FAILED, Exit.KILLED), (Exit.STOPPED,), (Exit.COMPLETED,)):
        found = [end for end in ends if end.ended in deciding]
        if found:
            # A part that ended because of another one has a message and no status of its own.
            first = min(found, key=lambda end: (end.status is None, end.since))
            return replace(first, since=last)
    raise ValueError("a start that lives has no end")


class RayRecords:
    """All starts that are not forgotten, by job and epoch."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._reader = TypeAdapter(RayStart)
        self._starts = {record.key: record for record in self._read()}

    def __iter__(self) -> Iterator[RayStart]:
        return iter(self._starts.values())

    def get(self, job: int, epoch: int) -> RayStart | None:
        """Return a start, if it is remembered."""
        return self._starts.get((job, epoch))

    def living(self, job: int) -> RayStart | None:
        """Return the start of a job that has not ended."""
        return next((one for one in self if one.job == job and one.lives), None)

    def keep(self, record: RayStart) -> None:
        """Write a start; it is on disk when this returns."""
        with write_aside(self._path(record)) as aside:
            aside.touch(mode=0o600)
            aside.write_text(json.dumps(_as_fields(record), default=str))
        record.changed = False
        self._starts[record.key] = record

    def keep_changed(self) -> None:
        """Write the starts that differ from their files."""
        for record in self:
            if record.changed:
                self.keep(record)

    def drop(self, record: RayStart) -> None:
        """Forget a start."""
        self._path(record).unlink(missing_ok=True)
        self._starts.pop(record.key, None)

    def _path(self, record: RayStart) -> Path:
        return self._folder / f"{record.job}.{record.epoch}.json"

    def _read(self) -> Iterator[RayStart]:
        for path in sorted(self._folder.glob("*.json")):
            record = self._reader.validate_python(json.loads(path.read_text()))
            record.changed = False
            yield record


def _as_fields(record: RayStart) -> Mapping[str, object]:
    fields = asdict(record)
    for part in fields["parts"]:
        if part["known"] is not None and part["known"]["ended"] is not None:
            part["known"]["ended"] = part["known"]["ended"].value
    return fields
