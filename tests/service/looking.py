"""Looks at something again and again, in a thread of its own, while a test goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def looks_again(look: Callable[[], None], pause_seconds: float) -> Iterator[None]:
    """Call `look` after each pause until the end of the body."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(pause_seconds):
            look()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
