"""When jobs start, with an interval: asked of a process of its own, one at a time.

Simulations take seconds. In that process they take no time of the interpreter in which the controller decides.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from muster.service.daemon_status import DaemonStatus
from muster.service.forecast import NoForecast
from muster.service.start_question import MOST_ENDED, SeenQueue, StartQuestion, question_of
from muster.service.store import Store
from muster.service.store.rows import ENDED, JobOrder, JobRow, JobSearch
from muster.service.waiting import drained_nodes
from muster.simulation.start_estimates import StartEstimate

PATIENCE_SECONDS = 120.0
"""For all simulations of one question."""
_OLDEST_SECONDS = 30.0
"""Of an answer that is given again, where no decision has come meanwhile."""
_MOST_WAITING = 8
"""Questions at a time: one is being answered, the others wait."""
_PROCESS = (sys.executable, "-P", "-m", "muster.service.start_process")

log = structlog.get_logger()


@dataclass(frozen=True)
class StartAnswer:
    """When jobs start, and what the simulations began with."""

    question: StartQuestion
    found: Sequence[Mapping[int, StartEstimate]]
    """By number of the job; of each shape, or of the queue."""

    def counts(self) -> dict[str, int]:
        """For machines."""
        asked = self.question
        return {
            "draws": asked.draws,
            "running": asked.state.running.height,
            "waiting": asked.state.waiting.height,
            "ended": asked.state.ended.height,
            "guessed": asked.guessed,
        }


class StartIntervals:
    """For one event loop."""

    def __init__(self, store: Store, status: DaemonStatus, patience: float = PATIENCE_SECONDS) -> None:
        self._store, self._status, self._patience = store, status, patience
        self._one_at_a_time = asyncio.Lock()
        self._asked = 0
        self._newest: StartAnswer | None = None
        self._of_decision = -1
        self._fresh_until = 0.0

    async def of_queue(self, draws: int) -> StartAnswer:
        """When the jobs that wait start. The same answer until the next decision, for half a minute at most."""
        async with self._turn():
            newest = self._newest
            if newest is not None and newest.question.draws == draws and self._is_fresh():
                return newest
            of_decision, fresh_until = self._status.decisions, time.monotonic() + _OLDEST_SECONDS
            self._newest = answer = await self._answered(draws, ())
            self._of_decision, self._fresh_until = of_decision, fresh_until
            return answer

    async def of_shapes(self, shapes: Sequence[JobRow], draws: int) -> StartAnswer:
        """When a job that is not submitted would start, in each of these shapes."""
        async with self._turn():
            return await self._answered(draws, shapes)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """The time in which no other question is being answered; NoForecast where too many wait for it."""
        if self._asked >= _MOST_WAITING:
            raise NoForecast(f"{_MOST_WAITING} others are asking now; ask again later")
        self._asked += 1
        try:
            async with self._one_at_a_time:
                yield
        finally:
            self._asked -= 1

    def _is_fresh(self) -> bool:
        return self._of_decision == self._status.decisions and time.monotonic() < self._fresh_until

    async def _answered(self, draws: int, shapes: Sequence[JobRow]) -> StartAnswer:
        question = await asyncio.to_thread(self._question, draws, shapes)
        return StartAnswer(question, await self._in_a_process(question))

    def _question(self, draws: int, shapes: Sequence[JobRow]) -> StartQuestion:
        newest = JobSearch(states=ENDED, order=JobOrder.ID, descending=True, limit=MOST_ENDED)
        with self._store.together():
            seen = SeenQueue(
                self._store.now(),
                self._store.living(),
                self._store.search(newest)[0],
                self._store.allocation_intervals(open_only=True),
                drained_nodes(self._store, self._status.cluster),
            )
        return question_of(seen, self._status, draws, shapes)

    async def _in_a_process(self, question: StartQuestion) -> list[dict[int, StartEstimate]]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*_PROCESS, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            written, said = await asyncio.wait_for(
                process.communicate(pickle.dumps(question)), self._patience
            )
        except TimeoutError:
            what = f"the simulations take longer than {self._patience:g} s; fewer of them take less"
            raise NoForecast(what) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            # Its message may name any job.
            log.warning(
                "no start estimate", status=process.returncode, said=said.decode(errors="replace")[-2000:]
            )
            raise NoForecast("the queue cannot be simulated")
        found = json.loads(written)
        return [{int(job): StartEstimate(*one) for job, one in shape.items()} for shape in found]
