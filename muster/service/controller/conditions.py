"""Conditions that keep the controller from its work: shown while they last, logged with details, once a kind."""

from __future__ import annotations

import traceback

import structlog

from muster.service.daemon_status import DaemonStatus

log = structlog.get_logger()


class Conditions:
    """Of one source."""

    def __init__(self, board: DaemonStatus, source: str) -> None:
        self._board, self._source = board, source
        self._logged: set[tuple[object, ...]] = set()

    def set(self, words: str, error: Exception) -> None:
        """Set the condition, in words that anybody may read. Errors of one line of code are one kind."""
        self._board.set_condition(self._source, words)
        where = traceback.extract_tb(error.__traceback__)[-1:]
        kind = (
            type(error),
            getattr(error, "errno", None),
            *((frame.filename, frame.lineno) for frame in where),
        )
        if kind not in self._logged:
            self._logged.add(kind)
            log.error(words, source=self._source, exc_info=error)

    def clear(self) -> None:
        """Clear the condition."""
        self._board.clear_condition(self._source)
        self._logged.clear()
