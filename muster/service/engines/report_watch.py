"""Which starts' reports the engine's thread reads, how far it has read each of them, and what it has found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from muster.service.engines.interface import Engine, ReportFound, ReportRequest

_READING_SECONDS = 0.2
"""For the reports of all that live; starts that were left out come first at the next look."""

StartKey = tuple[int, int]
"""Job and epoch."""


@dataclass(frozen=True)
class Heard:
    """What a start has reported since this was taken last."""

    found: ReportFound
    output_begins: int
    """Bytes that its output had when it began, as far as is known."""

    def before(self, later: Heard) -> Heard:
        """Both together."""
        found = replace(
            later.found,
            report=later.found.report or self.found.report,
            wrong=self.found.wrong or later.found.wrong,
        )
        return replace(later, found=found)


@dataclass
class _Place:
    """How far the reports of a start have been read."""

    output_begins: int
    output_read: int
    looked: int = -1


class ReportWatch:
    """Used by the engine's thread alone."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._places: dict[StartKey, _Place] = {}
        self._looks = 0

    def begin(self, watched: Mapping[StartKey, ReportRequest]) -> None:
        """Before starts are launched: what is in their output now was written by earlier ones."""
        self._places = {key: self._places.get(key) or self._begun(ask) for key, ask in watched.items()}

    def _begun(self, request: ReportRequest) -> _Place:
        begins = self._engine.read_report(request).output_read if request.begins else request.output_read
        return _Place(begins, begins)

    def read(
        self, watched: Mapping[StartKey, ReportRequest], over: Iterable[StartKey], *, living: bool
    ) -> dict[StartKey, Heard]:
        """What the starts that are over say, and those that live if asked for, the longest unread of these first."""
        self.begin(watched)
        self._looks += 1
        last_words = [key for key in over if key in watched]
        heard = {key: self._read(watched[key]) for key in last_words}
        if living:
            give_up = time.monotonic() + _READING_SECONDS
            for key in sorted(watched.keys() - heard.keys(), key=lambda key: (self._places[key].looked, key)):
                heard[key] = self._read(watched[key])
                if time.monotonic() >= give_up:
                    break
        return heard

    def _read(self, request: ReportRequest) -> Heard:
        place = self._places[request.job, request.epoch]
        found = self._engine.read_report(replace(request, output_read=place.output_read, begins=False))
        place.output_read, place.looked = found.output_read, self._looks
        return Heard(found, place.output_begins)
