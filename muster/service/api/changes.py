"""What changes in the store, read once for all who follow it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from fastapi.concurrency import run_in_threadpool

from muster.service.store import Store, StoreUnavailable
from muster.service.store.rows import Event, NumberedEvent

_LOOK_SECONDS = 0.5
_MOST_AT_ONCE = 1000
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

    def after(self, position: Position) -> Batch:
        """The part of it that is new to one who has read up to a position."""
        new = [entry for entry in self.events if _is_new(entry, position)]
        return Batch(self.until, new)


def _is_new(entry: NumberedEvent, position: Position) -> bool:
    """A submission has no number: it is known by its job."""
    return entry.number > position.event if entry.number else entry.event.job > position.job


class ChangeStream:
    """Follows the store while anybody follows it. For one event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
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
            position = await run_in_threadpool(self._position)
            if self._reader is None:
                self._reader = asyncio.create_task(self._read_on(position))
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

    async def _read_on(self, position: Position) -> None:
        """Read the store as long as there are followers."""
        try:
            while self._followers and not self._closed:
                await asyncio.sleep(_LOOK_SECONDS)
                with suppress(StoreUnavailable):
                    newest = await run_in_threadpool(self._position)
                    if newest != position:
                        batch = await run_in_threadpool(self._read, position, newest)
                        position = batch.until
                        self._hand_out(batch)
        finally:
            self._reader = None

    def _hand_out(self, batch: Batch) -> None:
        for queue in list(self._followers):
            try:
                queue.put_nowait(batch)
            except asyncio.QueueFull:
                self._followers.discard(queue)

    def _position(self) -> Position:
        with self._store.together():
            return Position(self._store.newest_event(), self._store.newest())

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
