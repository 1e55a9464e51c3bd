"""Submissions that come together share a transaction, whatever becomes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from muster.service.api.group_commit import GroupCommit


class Disk:
    """Writes once it is let."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.failing: set[int] = set()
        """Groups, counted from 1."""
        self.at_work, self.go_on = threading.Event(), threading.Event()

    def write(self, entries: Sequence[int]) -> list[int]:
        self.groups.append(list(entries))
        self.at_work.set()
        assert self.go_on.wait(10)
        if len(self.groups) in self.failing:
            raise OSError("no space")
        return [-entry for entry in entries]


def test_what_comes_meanwhile_is_one_group_with_one_fate() -> None:
    disk = Disk()
    disk.failing = {2}

    async def clients() -> None:
        group: GroupCommit[int, int] = GroupCommit(disk.write)
        first = asyncio.create_task(group.add([1]))
        await asyncio.to_thread(disk.at_work.wait, 10)
        others = [asyncio.create_task(group.add([number, number])) for number in (2, 3, 4)]
        await asyncio.sleep(0)
        assert not first.done(), "no answer before it is on the disk"
        disk.go_on.set()
        assert await first == [-1]
        assert [str(error) for error in await asyncio.gather(*others, return_exceptions=True)] == [
            "no space"
        ] * 3
        assert disk.groups == [[1], [2, 2, 3, 3, 4, 4]]
        assert await group.add([]) == []
        assert await group.add([5, 6]) == [-5, -6], "the next one is tried again"

    asyncio.run(clients())


def test_a_caller_that_goes_away_leaves_the_others_written() -> None:
    disk = Disk()

    async def clients() -> None:
        group: GroupCommit[int, int] = GroupCommit(disk.write)
        gone, stays = (asyncio.create_task(group.add([number])) for number in (1, 2))
        await asyncio.to_thread(disk.at_work.wait, 10)
        gone.cancel()
        await asyncio.sleep(0)
        disk.go_on.set()
        assert await stays == [-2]
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert disk.groups == [[1, 2]]

    asyncio.run(clients())
