"""While a process loads or compiles a kernel, others wait."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
from numba.core.event import Event, Listener, install_listener

import muster.compiling
from muster.compiling import njit


def is_held() -> bool:
    """Whether somebody holds the lock, asked as another process would ask."""
    lock = Path(tempfile.gettempdir()) / f"muster-compiling-{os.getuid()}.lock"
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class Asks(Listener):
    def __init__(self) -> None:
        self.seen: list[bool] = []

    def on_start(self, event: Event) -> None:
        self.seen.append(is_held())

    def on_end(self, event: Event) -> None:
        self.seen.append(is_held())


def test_the_lock_is_held_from_the_start_of_compiling_to_its_end_and_not_after(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a lock that no other test run has

    @njit
    def inner(values: np.ndarray) -> float:
        return values.sum()

    @njit
    def outer(values: np.ndarray) -> float:
        return inner(values) + 1

    asks = Asks()
    with install_listener("numba:compile", asks):
        assert outer(np.arange(4.0)) == 7.0
        assert not is_held()
        assert outer(np.arange(4)) == 7
    assert len(asks.seen) >= 8  # two functions, two signatures each
    assert all(asks.seen)
    assert not is_held()


def test_threads_that_compile_at_once_let_the_lock_go(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    both_at_the_door = threading.Barrier(2)

    def flock(file: int, how: int) -> None:
        with suppress(threading.BrokenBarrierError):
            both_at_the_door.wait(0.2)
        fcntl.flock(file, how)

    monkeypatch.setattr(muster.compiling, "fcntl", SimpleNamespace(flock=flock, LOCK_EX=fcntl.LOCK_EX))
    kernels = [njit(lambda values, more=more: values.sum() + more) for more in range(2)]
    threads = [Thread(target=kernel, args=(np.arange(4.0), 1.0), daemon=True) for kernel in kernels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert not is_held()
