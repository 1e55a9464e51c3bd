"""Bodies of pages, each rendered once for all who see the same of the same state."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool

from muster.service.pages.rendering import Body

_MOST_CHARACTERS = 50_000_000
"""Of all bodies that are kept, each as text and as bytes; the map of 500 nodes has two million."""
_MOST_BODIES = 300
_FRESH_SECONDS = 1.0
"""For which a body is as good as a new one while nothing changes: a time that it says may be so old."""
_MOST_WAY_SECONDS, _LOOK_SECONDS = 0.5, 0.01
_AT_ONCE = 2
"""Bodies that are rendered side by side: threads of the API and of the controller have work to do besides."""


@dataclass
class _Kept:
    version: object
    since: float
    body: asyncio.Future[Body]

    @property
    def is_old(self) -> bool:
        return self.body.done() and time.monotonic() - self.since > _FRESH_SECONDS

    @property
    def characters(self) -> int:
        if not self.body.done() or self.body.cancelled() or self.body.exception() is not None:
            return 0
        body = self.body.result()
        return len(body.markup) + len(body.refreshed)


class PageCache:
    """The bodies that were asked for lately. For one event loop."""

    def __init__(self, give_way: Callable[[], bool]) -> None:
        """While `give_way` says so, no body is begun, for half a second at most."""
        self._give_way = give_way
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._rendering = asyncio.Semaphore(_AT_ONCE)

    async def body(self, key: Hashable, version: object, render: Callable[[], Body]) -> Body:
        """The body of a key in a state of this version. `render` is called, in a thread, if there is none yet.

        Raises what `render` raises, which is not kept.
        """
        kept = self._kept.get(key)
        if kept is None or kept.version != version or kept.is_old:
            kept = _Kept(version, time.monotonic(), asyncio.ensure_future(self._rendered(render)))
            self._kept[key] = kept
        self._kept.move_to_end(key)
        try:
            # One who goes away does not take it from the others.
            return await asyncio.shield(kept.body)
        except Exception:
            if self._kept.get(key) is kept:
                del self._kept[key]
            raise
        finally:
            self._forget()

    async def _rendered(self, render: Callable[[], Body]) -> Body:
        async with self._rendering:
            until = time.monotonic() + _MOST_WAY_SECONDS
            while self._give_way() and time.monotonic() < until:
                await asyncio.sleep(_LOOK_SECONDS)
            return await run_in_threadpool(render)

    def _forget(self) -> None:
        """Forget those that were not asked for longest."""
        characters = sum(kept.characters for kept in self._kept.values())
        while len(self._kept) > _MOST_BODIES or (characters > _MOST_CHARACTERS and len(self._kept) > 1):
            characters -= self._kept.popitem(last=False)[1].characters
