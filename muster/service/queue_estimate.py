"""The queue as it is and what is expected of it, shared by all who ask why they wait.

Many may ask at once, and a simulation of the queue takes a second: there is one at a time, in a thread of its own that
neither the controller nor other requests wait for, and one for each decision of the scheduler.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from muster.service.daemon_status import DaemonStatus
from muster.service.forecast import Forecast, NoForecast, forecast
from muster.service.store import Store
from muster.service.store.rows import AllocationInterval, JobRow
from muster.service.waiting import drained_nodes

_OLDEST_SECONDS = 60.0
"""Where no decision is due for long: jobs report their speed meanwhile."""
_PATIENCE_SECONDS = 30.0
"""For a simulation. A user's own scheduler may never end."""


@dataclass(frozen=True)
class QueueEstimate:
    """The queue at one moment."""

    taken: float
    """Seconds of the store's clock; those of the forecast count from here."""
    jobs: Mapping[int, JobRow]
    """All that have not ended."""
    held: Sequence[AllocationInterval]
    """By whom what is held."""
    drained: Sequence[str]
    """Nodes on which nothing starts."""
    expected: Forecast | None
    obstacle: str = ""
    """Why nothing can be expected."""


class QueueEstimates:
    """The newest one. For one event loop."""

    def __init__(self, store: Store, status: DaemonStatus, patience: float = _PATIENCE_SECONDS) -> None:
        self._store, self._status, self._patience = store, status, patience
        self._newest: QueueEstimate | None = None
        self._of_decision = -1
        self._fresh_until = 0.0
        self._being_taken: asyncio.Task[QueueEstimate] | None = None
        self._thinks: threading.Thread | None = None

    async def with_job(self, job: int) -> QueueEstimate:
        """Return an estimate that includes this job, unless it has ended meanwhile."""
        if self._newest is not None and self._is_fresh() and job in self._newest.jobs:
            return self._newest
        if self._being_taken is not None:
            # It may have begun before the job was there.
            estimate = await asyncio.shield(self._being_taken)
            if job in estimate.jobs:
                return estimate
        if self._being_taken is None:
            self._being_taken = asyncio.create_task(self._take())
        return await asyncio.shield(self._being_taken)

    def _is_fresh(self) -> bool:
        return self._of_decision == self._status.decisions and time.monotonic() < self._fresh_until

    async def _take(self) -> QueueEstimate:
        try:
            of_decision, fresh_until = self._status.decisions, time.monotonic() + _OLDEST_SECONDS
            self._newest = estimate = await self._expect(await asyncio.to_thread(self._look))
            self._of_decision, self._fresh_until = of_decision, fresh_until
            return estimate
        finally:
            self._being_taken = None

    def _look(self) -> QueueEstimate:
        with self._store.together():
            living = self._store.living()
            held = self._store.allocation_intervals(open_only=True)
            drained = drained_nodes(self._store, self._status.cluster)
        return QueueEstimate(self._store.now(), {row.id: row for row in living}, held, drained, expected=None)

    async def _expect(self, seen: QueueEstimate) -> QueueEstimate:
        """Add the result of a simulation."""
        if self._thinks is not None and self._thinks.is_alive():
            return replace(seen, obstacle="an earlier simulation has not ended yet")
        loop = asyncio.get_running_loop()
        result: asyncio.Future[QueueEstimate] = loop.create_future()

        def publish(estimate: QueueEstimate) -> None:
            if not result.done():
                result.set_result(estimate)

        def think() -> None:
            expected, obstacle = None, ""
            try:
                expected = forecast(list(seen.jobs.values()), self._status, seen.drained, seen.held)
            except NoForecast as no:
                obstacle = str(no)
            with suppress(RuntimeError):  # The daemon has stopped meanwhile.
                loop.call_soon_threadsafe(publish, replace(seen, expected=expected, obstacle=obstacle))

        self._thinks = threading.Thread(target=think, name="forecast", daemon=True)
        self._thinks.start()
        try:
            return await asyncio.wait_for(result, self._patience)
        except TimeoutError:
            return replace(seen, obstacle=f"a simulation of the queue takes longer than {self._patience:g} s")
