"""Conditions that keep the controller from its work: shown while they last, logged with details, once a kind."""

from __future__ import annotations

import traceback

import structlog

from muster.service.daemon_status import DaemonStatus

log = structlog.get_logger()


class Conditions:
    """Of one source."""

    def __init__(self, status: DaemonStatus, source: str) -> None:
        self._status, self._source = status, source
        self._logged: set[tuple[object, ...]] = set()

    def set(self, words: str, error: Exception) -> None:
        """Set the condition; its text names no job, user or host. Errors of one line of code are one kind."""
        self._status.set_condition(self._source, words)
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
        self._status.clear_condition(self._source)
        self._logged.clear()
