"""Many threads' entries in one transaction: a flush to the disk costs the same for one as for a thousand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Entry = TypeVar("Entry")
Answer = TypeVar("Answer")


@dataclass
class _Waiting(Generic[Entry, Answer]):
    """One thread's entries, and what became of them."""

    entries: Sequence[Entry]
    answers: list[Answer] = field(default_factory=list)
    error: BaseException | None = None
    settled: bool = False


class GroupCommit(Generic[Entry, Answer]):
    """Whoever finds nobody writing writes for all who wait by then; those who come meanwhile are the next group."""

    def __init__(self, write: Callable[[Sequence[Entry]], Sequence[Answer]]) -> None:
        """`write` puts entries on the disk, all or none, and gives an answer each."""
        self._write = write
        self._waiting: list[_Waiting[Entry, Answer]] = []
        self._writing = False
        self._turn = threading.Condition()

    def add(self, entries: Sequence[Entry]) -> list[Answer]:
        """The answers to these entries, once they are on the disk; or what kept the whole group from it."""
        if not entries:
            return []
        mine: _Waiting[Entry, Answer] = _Waiting(entries)
        with self._turn:
            self._waiting.append(mine)
            self._turn.wait_for(lambda: mine.settled or not self._writing)
            group: list[_Waiting[Entry, Answer]] = []
            if not mine.settled:
                group, self._waiting, self._writing = self._waiting, [], True
        if group:
            self._write_group(group)
            with self._turn:
                self._writing = False
                self._turn.notify_all()
        if mine.error is not None:
            raise mine.error
        return mine.answers

    def _write_group(self, group: Sequence[_Waiting[Entry, Answer]]) -> None:
        try:
            answers = iter(self._write([entry for member in group for entry in member.entries]))
            for member in group:
                member.answers = [next(answers) for _ in member.entries]
        except BaseException as error:
            for member in group:
                member.error = error
        for member in group:
            member.settled = True
