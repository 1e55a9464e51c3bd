"""Many requests' entries in one transaction: a flush to the disk costs the same for one as for a thousand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Entry = TypeVar("Entry")
Answer = TypeVar("Answer")


class GroupCommit(Generic[Entry, Answer]):
    """What comes while one group is being written is the next group. For one event loop; only writing has a thread."""

    def __init__(self, write: Callable[[Sequence[Entry]], Sequence[Answer]]) -> None:
        """`write` puts entries on the disk, all or none, and gives an answer each."""
        self._write = write
        self._waiting: list[tuple[Sequence[Entry], asyncio.Future[list[Answer]]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def add(self, entries: Sequence[Entry]) -> list[Answer]:
        """The answers to these entries, once they are on the disk; or what kept the whole group from it."""
        if not entries:
            return []
        mine: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((entries, mine))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_groups())
        return await mine

    async def _write_groups(self) -> None:
        """Writes until no caller waits."""
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                await self._write_group(group)
        finally:
            self._writer = None

    async def _write_group(
        self, group: Sequence[tuple[Sequence[Entry], asyncio.Future[list[Answer]]]]
    ) -> None:
        # The caller may have gone meanwhile; its entries are written all the same.
        try:
            written = await asyncio.to_thread(
                self._write, [entry for entries, _ in group for entry in entries]
            )
        except Exception as error:
            for _, asker in group:
                if not asker.done():
                    asker.set_exception(error)
            return
        answers = iter(written)
        for entries, asker in group:
            mine = [next(answers) for _ in entries]
            if not asker.done():
                asker.set_result(mine)
