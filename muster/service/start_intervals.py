"""When jobs start, with an interval: asked of a process of its own, one at a time.

Simulations take seconds. In that process they take no time of the interpreter in which the controller decides.
"""

from __future__ import annotations

import asyncio
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from muster.service.daemon_status import DaemonStatus
from muster.service.simulated_queue import NoEstimate
from muster.service.start_question import MOST_ENDED, SeenQueue, question_of
from muster.service.start_simulations import StartQuestion
from muster.service.store import Store
from muster.service.store.rows import ENDED, JobOrder, JobRow, JobSearch
from muster.service.waiting import ClosedNodes, closed_nodes
from muster.simulation.start_estimates import DRAWS, ExpectedQueue, StartEstimate

PATIENCE_SECONDS = 120.0
"""For all simulations of one question, and before them for its turn: less in all than a client waits."""
ENOUGH_SECONDS = 10.0
"""For simulations whose number is not asked for, once there are as many as an interval needs."""
_OLDEST_SECONDS = 30.0
"""Of an answer that is given again, where no decision has come meanwhile."""
_OUTDATED_SECONDS = 300.0
"""From then on an answer is not given in place of one that is being computed."""
_MOST_WAITING = 8
"""Questions at a time: one is being answered, the others wait."""
_PROCESS = (sys.executable, "-P", "-m", "muster.service.start_process")

log = structlog.get_logger()


@dataclass(frozen=True)
class StartAnswer:
    """When jobs start, and what the simulations began with."""

    question: StartQuestion
    found: Sequence[ExpectedQueue]
    """With each shape, or of the queue as it is."""

    @property
    def draws(self) -> int:
        """Simulations, with the shape that has fewest."""
        return min(queue.draws for queue in self.found)

    def counts(self) -> dict[str, int]:
        """For machines."""
        asked = self.question
        return {
            "draws": self.draws,
            "running": asked.state.running.height,
            "waiting": asked.state.waiting.height,
            "ended": asked.state.ended.height,
            "guessed": asked.guessed,
        }

    def start(self, job: int, now: float) -> StartEstimate | None:
        """When a job that waits starts, counted from now by the store's clock; None: not in every simulation."""
        start = self.found[0].starts.get(str(job))
        return None if start is None else start.later(now - self.question.state.now)


@dataclass(frozen=True)
class QueueEstimate:
    """The queue at one moment, and when its jobs start as far as that is known by now."""

    seen: SeenQueue
    answer: StartAnswer | None = None
    """None: there is none, or it is being computed. It may be of an earlier moment."""
    obstacle: str = ""
    """Why there is none; empty where it is being computed."""

    @property
    def pending(self) -> bool:
        """Whether the answer is yet to come."""
        return self.answer is None and not self.obstacle


class _Round:
    """One question about the queue, and its answer to come, for all who ask."""

    def __init__(
        self, seen: asyncio.Task[SeenQueue], answer: asyncio.Task[StartAnswer], draws: int | None
    ) -> None:
        self.seen, self.answer, self.draws = seen, answer, draws
        for task in (seen, answer):  # The requests that wait for it may have ended by then.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def failure(self) -> BaseException | None:
        """Why there is no answer; None: there is one, or it is being computed."""
        return self.answer.exception() if self.answer.done() else None

    async def has(self, job: int) -> bool:
        return any(row.id == job for row in (await asyncio.shield(self.seen)).living)


class StartIntervals:
    """For one event loop."""

    def __init__(self, store: Store, status: DaemonStatus, patience: float = PATIENCE_SECONDS) -> None:
        self._store, self._status, self._patience = store, status, patience
        self._one_at_a_time = asyncio.Lock()
        self._asked = 0
        self._newest: _Round | None = None
        self._last: tuple[ClosedNodes, StartAnswer] | None = None
        """With the nodes on which nothing could start then."""
        self._seen_later: tuple[int, asyncio.Task[SeenQueue]] | None = None
        """The queue after a decision that came while the newest question was being answered."""
        self._of_decision = -1
        self._fresh_until = 0.0
        """By the store's clock."""

    async def of_queue(self, draws: int | None) -> StartAnswer:
        """When the jobs that wait start. The same answer until the next decision, for half a minute at most.

        Without a number of draws there are `DRAWS`, or fewer where these take too long.
        """
        newest = self._newest
        if newest is None or newest.draws != draws or newest.failure or not self._is_fresh():
            newest = self._begin(draws)
        return await asyncio.shield(newest.answer)

    async def with_job(self, job: int, wait: float) -> QueueEstimate:
        """The queue with this job, unless it has ended; its answer as far as it is there after so many seconds.

        The question that `of_queue` asks, and the answer that it gets. While one is being computed no other is begun,
        as each might be outdated before it is done. What is seen of the queue is of the last decision all the same.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + wait
        try:
            newest = await self._round_with(job)
            while (await asyncio.wait({newest.answer}, timeout=max(end - clock(), 0.0)))[0]:
                if (await self._seen_now(newest)).closed == (await asyncio.shield(newest.seen)).closed:
                    break
                newest = await self._round_with(job)
        except NoEstimate as no:
            return QueueEstimate(await asyncio.to_thread(self._look), obstacle=str(no))
        seen = await self._seen_now(newest)
        if not newest.answer.done():
            return QueueEstimate(seen, self._last_with(job, seen.closed))
        try:
            return QueueEstimate(seen, newest.answer.result())
        except NoEstimate as no:
            return QueueEstimate(seen, obstacle=str(no))

    async def of_shapes(self, shapes: Sequence[JobRow], draws: int | None) -> StartAnswer:
        """When a job that is not submitted would start, in each of these shapes."""
        self._reserve()
        return await self._answered(lambda: asyncio.to_thread(self._look), draws, shapes)

    async def _seen_now(self, newest: _Round) -> SeenQueue:
        """The queue as the newest question has it, or looked at again once for each decision after it."""
        decision = self._status.decisions
        if self._of_decision == decision:
            return await asyncio.shield(newest.seen)
        if self._seen_later is None or self._seen_later[0] != decision:
            self._seen_later = (decision, asyncio.create_task(asyncio.to_thread(self._look)))
        return await asyncio.shield(self._seen_later[1])

    async def _round_with(self, job: int) -> _Round:
        while (newest := self._newest) is not None and newest.draws is None:
            outdated = newest.answer.done() and not self._is_fresh()
            if outdated or not isinstance(newest.failure, NoEstimate | None):
                break
            if await newest.has(job):
                return newest
            if newest is self._newest:
                break
        return self._begin(None)

    def _begin(self, draws: int | None) -> _Round:
        self._reserve()
        self._of_decision = self._status.decisions
        self._fresh_until = self._store.now() + _OLDEST_SECONDS
        seen = asyncio.create_task(asyncio.to_thread(self._look))
        self._newest = _Round(seen, asyncio.create_task(self._of_round(seen, draws)), draws)
        return self._newest

    async def _of_round(self, seen: asyncio.Task[SeenQueue], draws: int | None) -> StartAnswer:
        answer = await self._answered(lambda: seen, draws, ())
        self._last = (seen.result().closed, answer)
        return answer

    def _last_with(self, job: int, closed: ClosedNodes) -> StartAnswer | None:
        """The last answer with this job, unless it is too old or other nodes were closed then."""
        if self._last is None or self._last[0] != closed:
            return None
        last = self._last[1]
        outdated = self._store.now() - last.question.state.now > _OUTDATED_SECONDS
        return last if not outdated and str(job) in last.found[0].starts else None

    def _reserve(self) -> None:
        """A place among those that wait for an answer, until `_answered` ends; NoEstimate where there is none."""
        if self._asked >= _MOST_WAITING:
            raise NoEstimate(f"{_MOST_WAITING} others are asking now; ask again later")
        self._asked += 1

    def _is_fresh(self) -> bool:
        return self._of_decision == self._status.decisions and self._store.now() < self._fresh_until

    async def _answered(
        self, look: Callable[[], Awaitable[SeenQueue]], draws: int | None, shapes: Sequence[JobRow]
    ) -> StartAnswer:
        try:
            await self._turn()
            try:
                most = DRAWS if draws is None else draws
                question = await asyncio.to_thread(question_of, await look(), self._status, most, shapes)
                if draws is None:
                    question = replace(question, enough_seconds=ENOUGH_SECONDS)
                return StartAnswer(question, await self._in_a_process(question))
            finally:
                self._one_at_a_time.release()
        finally:
            self._asked -= 1

    async def _turn(self) -> None:
        try:
            await asyncio.wait_for(self._one_at_a_time.acquire(), self._patience)
        except TimeoutError:
            what = f"questions asked before it took longer than {self._patience:g} s; ask again later"
            raise NoEstimate(what) from None

    def _look(self) -> SeenQueue:
        newest = JobSearch(states=ENDED, order=JobOrder.ID, descending=True, limit=MOST_ENDED)
        with self._store.together():
            return SeenQueue(
                self._store.now(),
                self._store.living(),
                self._store.search(newest)[0],
                self._store.held_now(),
                closed_nodes(self._store, self._status),
            )

    async def _in_a_process(self, question: StartQuestion) -> list[ExpectedQueue]:
        asked = _AskedProcess(pickle.dumps(question), self._patience)
        try:
            status, written, said = await asyncio.to_thread(asked.answer)
        except subprocess.TimeoutExpired:
            what = f"the simulations take longer than {self._patience:g} s; fewer of them take less"
            raise NoEstimate(what) from None
        finally:
            asked.end()
        if status:
            # Its message may name any job.
            log.warning("no start estimate", status=status, said=said.decode(errors="replace")[-2000:])
            raise NoEstimate("the queue cannot be simulated")
        return [
            ExpectedQueue({job: StartEstimate(*one) for job, one in starts.items()}, ends, draws)
            for starts, ends, draws in json.loads(written)
        ]


class _AskedProcess:
    """A process that is asked once, from a thread: asyncio's own may hang where it is cancelled as it begins."""

    def __init__(self, question: bytes, patience: float) -> None:
        self._question, self._patience = question, patience
        self._changes = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._unwanted = False

    def answer(self) -> tuple[int, bytes, bytes]:
        """Its status, and what it wrote to its two outputs; TimeoutExpired if it takes too long."""
        pipe = subprocess.PIPE
        with subprocess.Popen(_PROCESS, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            with self._changes:
                self._process = process
                if self._unwanted:
                    process.kill()
            try:
                written, said = process.communicate(self._question, self._patience)
            finally:
                process.kill()
        return process.returncode, written, said

    def end(self) -> None:
        """End it if it runs, and where it is about to begin."""
        with self._changes:
            self._unwanted = True
            if self._process is not None:
                self._process.kill()
