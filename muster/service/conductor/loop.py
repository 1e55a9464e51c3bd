"""The loop of the real world: look at what is, ask the scheduler what should be, carry out the difference.

The ledger holds the plan; `starts` hold what really runs. A job that should go is asked to stop; one that should
begin waits until its seats are empty; so a plan is true at once on the books and soon after on the machines. Every
change is on disk before it is acted upon, and every act may be repeated, so that the daemon may be killed at any
moment: a new one finds its starts again by the engine's word and goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from pathlib import Path

import structlog

from muster.service.board import Board
from muster.service.conductor.acting import Actor
from muster.service.conductor.deciding import Decider
from muster.service.conductor.living import LivingJobs
from muster.service.conductor.observing import Observer
from muster.service.conductor.orders import Orders
from muster.service.conductor.owners import Owners
from muster.service.engines import Engine
from muster.service.store import Store, StoreUnavailable

_TURN_SECONDS = 0.2
"""Between two looks at the machines."""
_SHORTEST_PAUSE = 0.03
"""Between two turns, however many submissions come: they are taken together."""
_RETRY_SECONDS = 1.0

log = structlog.get_logger()


class Conductor:
    """One cluster, one scheduler, one engine."""

    def __init__(self, store: Store, engine: Engine, board: Board, home: Path) -> None:
        self.jobs = LivingJobs(board)
        self._jobs, self._store, self._board = self.jobs, store, board
        orders = Orders(self.jobs, engine, home)
        self._observer = Observer(self.jobs, store, engine, orders, home)
        self._owners = Owners(self.jobs, store)
        self._decider = Decider(self.jobs, store, board)
        self._actor = Actor(self.jobs, orders, resizes=engine.resizes)
        self._looked_at = -inf
        self._stopping = False

    def run(self) -> None:
        """Until `stop`; the jobs that run go on without it."""
        self.recover()
        self._board.ready = True
        while not self._stopping:
            self.turn()
            time.sleep(_SHORTEST_PAUSE)
            self._board.wait(max(min(_TURN_SECONDS, self._decider.next_wake - self._store.now()), 0.001))

    def stop(self) -> None:
        """Leave the loop after this turn."""
        self._stopping = True
        self._board.wake()

    def recover(self) -> None:
        """Find what the daemon before this one left."""
        self._observer.recover()

    def turn(self) -> None:
        """Look, decide if it is time to, write down, act."""
        self._jobs.begin_turn()
        now = self._store.now()
        # Not at each of many submissions. A clock that was set back is no reason to wait.
        if not 0 <= now - self._looked_at < _TURN_SECONDS:
            self._looked_at = now
            self._observer.observe(now)
            self._observer.read_reports(now)
        self._owners.admit()
        self._owners.heed_wishes(now)
        self._owners.drain(now)
        if self._decider.is_due(now):
            self._decider.decide(now)
            now = self._store.now()
        self._actor.carry_out(now)
        self._write()
        for act in self._jobs.acts:
            self._do(act)
        self._board.looked_at = time.time()

    def _do(self, act: Callable[[], None]) -> None:
        """An act that fails now is tried again at a later turn: what is and what is planned still differ."""
        try:
            act()
        except OSError as error:
            self._board.trouble = f"this machine refuses: {error.strerror or error}"
            log.error("an act failed", exc_info=True)

    def _write(self) -> None:
        """Bring it to disk; where the disk is full or the database away, nothing goes on until it is back."""
        while self._jobs.changes:
            try:
                self._store.commit(self._jobs.changes)
            except StoreUnavailable as error:
                self._board.trouble = str(error)
                self._board.looked_at = time.time()
                log.error("the store cannot be written", error=str(error))
                if self._stopping:
                    return
                time.sleep(_RETRY_SECONDS)
            else:
                return
