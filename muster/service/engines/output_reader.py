"""Reads output beside everything else that the daemon does.

A disk or an API that does not answer holds up a few threads, which nothing else uses and no exit waits for. Who asks
for output meanwhile gets an error in time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from muster.service.engines.interface import OutputPiece, OutputRequest

_MOST_THREADS = 4
ANSWER_SECONDS = 5.0
"""Until an engine counts as not answering."""


class OutputReader:
    """Reads pieces of output for one event loop."""

    def __init__(
        self, read: Callable[[OutputRequest], OutputPiece], answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        """`read` is the engine's `read_output`."""
        self._read, self._answer_seconds = read, answer_seconds
        self._threads = asyncio.Semaphore(_MOST_THREADS)

    async def read(self, request: OutputRequest) -> OutputPiece:
        """What the engine answers. OSError if it cannot; TimeoutError if it does not."""
        async with asyncio.timeout(self._answer_seconds):
            await self._threads.acquire()
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[OutputPiece] = loop.create_future()
            thread = threading.Thread(target=self._answer, args=(request, answer), name="output", daemon=True)
            try:
                thread.start()
            except BaseException:
                self._threads.release()
                raise
            return await answer

    def _answer(self, request: OutputRequest, answer: asyncio.Future[OutputPiece]) -> None:
        """The work of one thread."""
        found: OutputPiece | Exception
        try:
            found = self._read(request)
        except Exception as error:
            found = error

        def settle() -> None:
            self._threads.release()
            if answer.cancelled():
                return
            if isinstance(found, OutputPiece):
                answer.set_result(found)
            else:
                answer.set_exception(found)

        with suppress(RuntimeError):  # The loop has ended meanwhile.
            answer.get_loop().call_soon_threadsafe(settle)
