"""SIGTERM as a request: noted, and honoured between two steps."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopSignal:
    """From its making until it is given back, SIGTERM is only noted; where Python lets this thread say so."""

    def __init__(self) -> None:
        global _in_force
        self.asked = False
        self._before = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note) or signal.SIG_DFL
            _in_force = self

    def give_back(self) -> None:
        """SIGTERM means what it meant before; what the job itself has said since stays."""
        global _in_force
        if self._before is not None and signal.getsignal(signal.SIGTERM) == self._note:
            signal.signal(signal.SIGTERM, self._before)
        self._before = _in_force = None

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


@contextmanager
def held_up() -> Iterator[None]:
    """SIGTERM comes after the body; a process begun in it is to call `follow_parent_only`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def follow_parent_only() -> None:
    """In a helper of the job: of all who send SIGTERM, its main process alone can end it.

    Ignoring the signal would do as long as nothing fails: a main process that ends by an error terminates its
    helpers, and waits for them.
    """
    parent = multiprocessing.parent_process()
    own_parent = os.getppid() if parent is None or parent.pid is None else parent.pid
    # Blocked, it waits for the thread below; what it would do to threads older than that is taken from it.
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    threading.Thread(target=_end_with, args=(own_parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while signal.sigwaitinfo([signal.SIGTERM]).si_pid != parent:
        pass
    os._exit(0)


_in_force: StopSignal | None = None


def _give_back_in_child() -> None:
    """A process that the job forks, such as one of a Pool, ends by SIGTERM as it would have without Muster."""
    if _in_force is not None:
        _in_force.give_back()


os.register_at_fork(after_in_child=_give_back_in_child)
