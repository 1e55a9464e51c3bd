"""What keeps the conductor from its work: on the board while it lasts, and with all details in the log, once a kind."""

from __future__ import annotations

import traceback

import structlog

from muster.service.board import Board

log = structlog.get_logger()


class Troubles:
    """Of one source."""

    def __init__(self, board: Board, source: str) -> None:
        self._board, self._source = board, source
        self._logged: set[tuple[object, ...]] = set()

    def tell(self, words: str, error: Exception) -> None:
        """There is trouble, in words for everybody. Errors of one line of code are one kind."""
        self._board.tell(self._source, words)
        where = traceback.extract_tb(error.__traceback__)[-1:]
        kind = (
            type(error),
            getattr(error, "errno", None),
            *((frame.filename, frame.lineno) for frame in where),
        )
        if kind not in self._logged:
            self._logged.add(kind)
            log.error(words, source=self._source, exc_info=error)

    def mended(self) -> None:
        """There is none any more."""
        self._board.mended(self._source)
        self._logged.clear()
