"""The daemon: store, engine, controller and API in one process. Jobs run on without it and are found again."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn

from muster.compiling import announce_with
from muster.problems import InputError, Problem
from muster.schedulers.contract import Scheduler
from muster.service.accounts import together
from muster.service.api import create_app, server
from muster.service.callers import check_bind
from muster.service.controller import Controller
from muster.service.daemon_status import DaemonStatus
from muster.service.engines.factory import ConfiguredEngine, EngineContext
from muster.service.engines.interface import EngineCapabilities
from muster.service.engines.registry import check_bound_engine
from muster.service.home import (
    bind_store,
    claimed,
    engine_folder,
    make_home,
    newest_job_folder,
    remove_endpoint,
    shut_to_others,
    store_url,
    write_endpoint,
)
from muster.service.known_models import KnownModels
from muster.service.live_limits import LiveLimits
from muster.service.request import DEFAULT_RESTART_COST_SECONDS
from muster.service.store import Store
from muster.service.warm_up import warm_up

_SWITCH_SECONDS = 0.0005
"""For which one thread may keep the others from running Python. A request changes threads some times; with the usual
5 ms each of them would wait so long while the controller is at work."""

_UMASK = 0o022
"""Whatever umask it was started with: private files have modes of their own, and a notice must be readable."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Serving:
    """What a daemon is started with."""

    home: Path
    engine_name: str
    """By which the registry knows it, the store is bound to it, and its folder is called."""
    engine: ConfiguredEngine
    scheduler: Scheduler
    round_seconds: float
    limits: LiveLimits
    restart_cost_seconds: float = DEFAULT_RESTART_COST_SECONDS
    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free."""
    store: str | None = None
    """URL; None: SQLite in the home."""
    needs_tokens: bool = False
    """Every request needs a token, even if none was ever made."""


def serve(serving: Serving, say: Callable[[str], None]) -> None:
    """Serves until a signal stops it. `say` gets a line for people once it serves."""
    _log_as_json()
    announce_with(log.info)
    sys.setswitchinterval(_SWITCH_SECONDS)
    os.umask(_UMASK)
    make_home(serving.home)
    with claimed(serving.home), _store_of(serving) as store, store.claimed():
        _bind(serving, store)
        check_bind(serving.host, needs_tokens=store.needs_tokens())
        with _listening(serving.host, serving.port) as listener:
            _serve(serving, store, listener, say)


@contextmanager
def _store_of(serving: Serving) -> Iterator[Store]:
    store = Store.open(serving.store or store_url(serving.home))
    try:
        yield store
    finally:
        store.close()


def _bind(serving: Serving, store: Store) -> None:
    """Home, store and engine belong together: a job's number, its folder and its starts mean the same to all three."""
    bind_store(serving.home, store.origin)
    newest = newest_job_folder(serving.home)
    if newest > store.newest():  # as after a backup was put back
        log.warning("numbers of jobs go on after those of the folders that are there", newest=newest)
        store.skip_to(newest)
    other_store = "" if serving.store is None else " and another --store"
    hint = f"MUSTER_HOME=FOLDER{other_store} keeps the jobs of the two engines apart"
    check_bound_engine(store.engine(), serving.engine_name, hint)
    store.bind_engine(serving.engine_name)
    if serving.needs_tokens:
        store.require_tokens()


def _serve(serving: Serving, store: Store, listener: socket.socket, say: Callable[[str], None]) -> None:
    known_models = KnownModels(serving.home)
    try:
        engine = serving.engine.open(
            EngineContext(
                engine_folder(serving.home, serving.engine_name),
                lambda job: controller.jobs.rows[job],
                known_models.all,
            )
        )
    except OSError as error:  # something may live that cannot be looked at
        where = str(error.filename or f"engine {serving.engine_name}")
        raise InputError(Problem(where, f"cannot be used: {error.strerror or error}")) from None
    status = DaemonStatus(
        policy=serving.scheduler,
        engine=serving.engine_name,
        engine_capabilities=engine.capabilities,
        enforces=engine.enforces,
        cluster=serving.engine.cluster,
        models=known_models.all,
        round_seconds=serving.round_seconds,
        restart_cost_seconds=serving.restart_cost_seconds,
    )
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    write_endpoint(serving.home, url, starting=True)
    try:
        warm_up(status)
    except BaseException:
        remove_endpoint(serving.home)
        raise
    controller = Controller(store, engine, status, serving.home)
    web = server(create_app(store, status, serving.home, serving.limits))
    failure: list[BaseException] = []

    def conduct() -> None:
        try:
            controller.run()
        except BaseException as error:
            log.critical("the controller failed", exc_info=True)
            failure.append(error)
        finally:
            web.should_exit = True

    warnings = list(_warnings(serving, engine.capabilities, store))
    thread = threading.Thread(target=conduct, name="controller")
    write_endpoint(serving.home, url)
    threading.Thread(target=serving.limits.reload_on_request, name="limits", daemon=True).start()
    _handle_signals(web, serving.limits)
    thread.start()
    cluster = serving.engine.cluster
    log.info("serving", url=url, scheduler=status.scheduler, cluster=cluster.name, enforces=status.enforces)
    say(f"{url} serves {cluster.total_gpus} GPUs of {cluster.name} by {status.scheduler}; {status.enforces}")
    for warning in warnings:
        log.warning(warning)
        say(f"Note: {warning}.")
    try:
        web.run(sockets=[listener])
    finally:
        controller.stop()
        thread.join()
        remove_endpoint(serving.home)
    log.info("stopped", running=len(controller.jobs.starts))
    if failure:
        raise failure[0]


def _warnings(serving: Serving, engine: EngineCapabilities, store: Store) -> Iterator[str]:
    """What its operator should know, as sentences without their full stops."""
    if engine.runs_as_users and (shut := shut_to_others(serving.home)):
        yield shut
    if not store.needs_tokens():
        return
    if alike := together(engine):
        yield f"tokens do not keep jobs apart: {alike}"
    if all(row.revoked is not None for row in store.tokens()):
        yield "every request needs a token, and there is none: muster token create NAME --role operator --store URL"


def _handle_signals(web: uvicorn.Server, limits: LiveLimits) -> None:
    """SIGTERM and SIGINT stop the daemon in good order; SIGHUP reloads the limits.

    SIGHUP at the end of its terminal stops it, unless it was started with nohup. uvicorn raises the first two once
    more when it has ended.
    """
    ends_with_terminal = _has_terminal() and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN

    def stop(*_: object) -> None:
        web.should_exit = True

    def reload_or_stop(*_: object) -> None:
        if ends_with_terminal and not _has_terminal():
            stop()
        else:
            limits.request_reload()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, reload_or_stop)


def _has_terminal() -> bool:
    """Whether this process has a controlling terminal now."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _listening(host: str, port: int) -> socket.socket:
    """A socket that is bound already, so that a port that is taken is an error of the user."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only where the protocol is named; else an answer waits for an
    # acknowledgement of its header, which the other side delays by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # Clients that read the address before the server runs wait, and are not turned away.
    except OSError as error:
        listener.close()
        what = f"cannot be listened on: {error.strerror}; port 0 takes any that is free"
        raise InputError(Problem("--listen", what, found=f"{host}:{port}")) from None
    return listener


def _log_as_json() -> None:
    """One JSON object a line on standard error; steps of each decision only where `--log-level debug` asks for them."""
    level = logging.DEBUG if logging.getLogger("muster").isEnabledFor(logging.DEBUG) else logging.INFO
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
