"""What changes in the store, read once for all who follow it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from fastapi.concurrency import run_in_threadpool

from muster.service.store import Store, StoreUnavailable
from muster.service.store.rows import Event, NumberedEvent, Version

_LOOK_SECONDS = 0.5
_MOST_AT_ONCE = 1000
_SETTLED_SECONDS = 10.0
"""Between two batches without events: how far jobs are is written that often."""
_MOST_UNREAD = 100
"""Batches that a follower may be behind; one that is further behind is sent away and comes back."""


class Position(NamedTuple):
    """Up to where a follower has read: the last line of the history and the newest job."""

    event: int
    job: int

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """A position as `str` has it; None where the text is none."""
        found = re.fullmatch(r"([0-9]{1,18})-([0-9]{1,18})", text)
        return None if found is None else cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.event}-{self.job}"


@dataclass(frozen=True)
class Batch:
    """What has happened between two looks at the store."""

    until: Position
    events: Sequence[NumberedEvent]
    """None of them: something else has changed, as how far jobs are, or a condition of the daemon."""

    def after(self, position: Position) -> Batch:
        """The part of it that is new to one who has read up to a position."""
        new = [entry for entry in self.events if _is_new(entry, position)]
        return Batch(self.until, new)


def _is_new(entry: NumberedEvent, position: Position) -> bool:
    """A submission has no number: it is known by its job."""
    return entry.number > position.event if entry.number else entry.event.job > position.job


def _position(version: Version) -> Position:
    return Position(version.event, version.job)


class _Look(NamedTuple):
    """What there was at one moment."""

    version: Version
    status: object
    at: float
    """By `time.monotonic`."""

    def is_news(self, seen: _Look) -> bool:
        """Whether something without a line in a history has changed; what the controller commits, not too often."""
        if self.status != seen.status or self.version.other != seen.version.other:
            return True
        return self.version != seen.version and self.at - seen.at >= _SETTLED_SECONDS


class ChangeStream:
    """Follows the store while anybody follows it. For one event loop."""

    def __init__(self, store: Store, status: Callable[[], object]) -> None:
        """`status` says what followers should know of besides the store."""
        self._store, self._status = store, status
        self._followers: set[asyncio.Queue[Batch | None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False

    async def follow(self, after: Position | None, heartbeat_seconds: float) -> AsyncIterator[Batch | None]:
        """Batches from `after` on, by default from now on; None where nothing happened for so long.

        Ends when the daemon stops, or where the caller takes batches too slowly.
        """
        queue: asyncio.Queue[Batch | None] = asyncio.Queue(_MOST_UNREAD)
        self._followers.add(queue)
        try:
            look = await self._look()
            position = _position(look.version)
            if self._reader is None:
                self._reader = asyncio.create_task(self._read_on(look))
            first = (
                Batch(position, ()) if after is None else await run_in_threadpool(self._read, after, position)
            )
            yield first
            while queue in self._followers:
                try:
                    batch = await asyncio.wait_for(queue.get(), heartbeat_seconds)
                except TimeoutError:
                    yield None
                    continue
                if batch is None:
                    return
                yield batch.after(position)
                position = batch.until
        finally:
            self._followers.discard(queue)

    def close(self) -> None:
        """End what all followers read: the daemon stops."""
        self._closed = True
        for queue in self._followers:
            with suppress(asyncio.QueueFull):
                queue.put_nowait(None)
        self._followers.clear()

    async def _read_on(self, seen: _Look) -> None:
        """Read the store as long as there are followers."""
        position = _position(seen.version)
        try:
            while self._followers and not self._closed:
                await asyncio.sleep(_LOOK_SECONDS)
                with suppress(StoreUnavailable):
                    look = await self._look()
                    newest = _position(look.version)
                    if newest == position and not look.is_news(seen):
                        continue
                    batch = Batch(position, ())
                    if newest != position:
                        batch = await run_in_threadpool(self._read, position, newest)
                    position, seen = batch.until, look
                    self._hand_out(batch)
        finally:
            self._reader = None

    async def _look(self) -> _Look:
        status = self._status()
        return _Look(await run_in_threadpool(self._store.version), status, time.monotonic())

    def _hand_out(self, batch: Batch) -> None:
        for queue in list(self._followers):
            try:
                queue.put_nowait(batch)
            except asyncio.QueueFull:
                self._followers.discard(queue)

    def _read(self, after: Position, newest: Position) -> Batch:
        """What happened after a position; of a long time the newest part."""
        first = max(after.event, newest.event - _MOST_AT_ONCE)
        events = self._store.events_after(first, _MOST_AT_ONCE)
        new_jobs = self._store.jobs(after=max(after.job, newest.job - _MOST_AT_ONCE), limit=_MOST_AT_ONCE)
        submitted = [
            NumberedEvent(0, row.user, Event(row.id, row.submitted, "submitted")) for row in new_jobs
        ]
        last = max((entry.number for entry in events), default=newest.event)
        newest_job = max((row.id for row in new_jobs), default=newest.job)
        return Batch(Position(max(last, newest.event), max(newest_job, newest.job)), [*submitted, *events])
