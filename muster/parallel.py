"""Runs in processes of their own, several at a time; the first failure, and an interrupt, stop all of them.

Each starts from a fresh interpreter, so what a run gives does not depend on how many run beside it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from muster.files import disk_error
from muster.problems import InputError, Unable

Work = Callable[[Callable[[Any], None]], Any]
"""Takes a function to report with and gives a result; must be picklable, as must be what it gives."""


_INTERRUPT = (signal.SIGINT, signal.SIGTERM)


class RunFailedError(Exception):
    """A run ended in an error or without a word."""


def run_all(works: Mapping[str, Work], at_once: int, on_report: Callable[[str, Any], None]) -> dict[str, Any]:
    """The results by name, in the order of `works`, at most `at_once` at a time."""
    waiting = list(works)
    running: dict[Connection, tuple[str, BaseProcess]] = {}
    results: dict[str, Any] = {}
    # The first start of this helper of `multiprocessing` lets interrupts through; here it may.
    resource_tracker.ensure_running()
    try:
        while waiting or running:
            free = at_once - len(running)
            starting, waiting = waiting[:free], waiting[free:]
            begun = {name: _start(name, running) for name in starting}
            for name, connection in begun.items():
                # A process that died takes nothing, and is reported below: its connection is at its end.
                with suppress(ConnectionError):
                    connection.send(works[name])
            for ready in wait(list(running)):
                assert isinstance(ready, Connection)
                name, process = running[ready]
                kind, value = _received(ready, name, process)
                if kind == "report":
                    on_report(name, value)
                else:
                    results[name] = value
                    process.join()
                    ready.close()
                    del running[ready]
    finally:
        for connection, (_, process) in running.items():
            process.terminate()
            process.join()
            connection.close()
    return {name: results[name] for name in works}


def _start(name: str, running: dict[Connection, tuple[str, BaseProcess]]) -> Connection:
    """Start a process, enter it in `running` and return the connection over which it takes its work.

    It starts with little, which fits into a pipe: this process holds both ends of that one, and would wait for ever
    for a process that dies before it reads.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process: BaseProcess = context.Process(target=_run, args=(theirs,), daemon=True)
    # An interrupt waits until the process is known; its own start is never interrupted.
    signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)
    try:
        process.start()
        theirs.close()
        running[ours] = (name, process)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
    return ours


def _received(connection: Connection, name: str, process: BaseProcess) -> tuple[str, Any]:
    """The next message of a run: a report or the result; its failure is raised."""
    try:
        kind, value = connection.recv()
    except (EOFError, ConnectionError):
        process.join()
        raise RunFailedError(f"{name} ended with status {process.exitcode}, without a word") from None
    raise_failure(name, kind, value)
    return kind, value


def raise_failure(name: str, kind: str, value: Any) -> None:
    """Raise what `failure_of` has described in another process; nothing if it is no failure."""
    if kind == "bad input":
        raise InputError(*value)
    if kind == "unable":
        raise Unable(value)
    if kind == "disk":
        raise OSError(value, os.strerror(value))
    if kind == "failed":
        raise RunFailedError(f"{name}: {value}")


def failure_of(error: Exception) -> tuple[str, Any]:
    """Return the kind of a failure and what `raise_failure` needs of it, picklable."""
    if isinstance(error, InputError):
        if os.environ.get("MUSTER_DEBUG") and error.__cause__:
            traceback.print_exception(error)
        return "bad input", tuple(error.problems)
    if isinstance(error, Unable):
        return "unable", str(error)
    number = disk_error(error)
    if number is not None:
        return "disk", number
    if os.environ.get("MUSTER_DEBUG"):
        traceback.print_exception(error)
    return "failed", f"{type(error).__name__}: {error}"


def _run(connection: Connection) -> None:
    """The life of one process. An interrupt reaches the whole group; the parent alone answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPT)
    try:
        pickled = connection.recv_bytes()
    except (EOFError, ConnectionError):
        return  # The parent is gone.
    try:
        work: Work = pickle.loads(pickled)
        message = ("done", work(lambda value: connection.send(("report", value))))
    except Exception as error:
        message = failure_of(error)
    # A second interrupt has ended the parent before it could end this process.
    with suppress(ConnectionError):
        connection.send(message)
