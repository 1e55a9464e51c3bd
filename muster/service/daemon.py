"""The daemon: store, engine, controller and API in one process. Jobs run on without it and are found again."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import structlog
import uvicorn

from muster.formatting import gpus
from muster.problems import InputError, Problem
from muster.schedulers.contract import Scheduler
from muster.service.accounts import together
from muster.service.api import create_app, server
from muster.service.controller import Controller
from muster.service.daemon_status import DaemonStatus
from muster.service.engines.factory import ConfiguredEngine, EngineContext
from muster.service.engines.interface import Engine, EngineCapabilities
from muster.service.engines.output_reader import OutputReader
from muster.service.engines.registry import check_bound_engine
from muster.service.home import (
    bind_store,
    claimed,
    engine_folder,
    jobs_folder,
    make_home,
    newest_job_folder,
    remove_endpoint,
    shut_to_others,
    socket_path,
    store_url,
    write_endpoint,
)
from muster.service.honoured import check_scheduler, ignored_of_earlier_jobs
from muster.service.jobs_folder import use_folder
from muster.service.known_models import KnownModels
from muster.service.live_limits import LiveLimits
from muster.service.pages import add_pages
from muster.service.request import DEFAULT_RESTART_COST_SECONDS
from muster.service.store import Store
from muster.service.unix_socket import bind

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
    listen: tuple[str, int] | None = None
    """Address and port (0: any that is free) on TCP; None: only the Unix socket of the home."""
    store: str | None = None
    """URL; None: SQLite in the home."""
    jobs: Path | None = None
    """Where the jobs' folders are from now on; None: where they were, at first in the home."""
    scheduler_named: str = ""
    """As the command line names it; empty: by its own name."""


def serve(serving: Serving, say: Callable[[str], None]) -> None:
    """Serves until a signal stops it. `say` gets a line for people once it serves."""
    _log_as_json()
    sys.setswitchinterval(_SWITCH_SECONDS)
    os.umask(_UMASK)
    make_home(serving.home)
    with claimed(serving.home), _store_of(serving) as store, store.claimed():
        use_folder(serving.home, serving.jobs)
        _bind(serving, store)
        with _listening(serving) as listeners:
            _serve(serving, store, listeners, say)


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


def _serve(
    serving: Serving, store: Store, listeners: Sequence[socket.socket], say: Callable[[str], None]
) -> None:
    known_models = KnownModels(serving.home)
    notes: list[str] = []
    context = EngineContext(
        engine_folder(serving.home, serving.engine_name),
        lambda job: controller.jobs.rows[job],
        known_models.all,
        lambda job, whose: (row := store.job(job)) is not None and row.whose == whose,
        jobs_folder(serving.home),
        notes.append,
    )
    engine = _opened(serving, context)
    status = DaemonStatus(
        policy=serving.scheduler,
        engine=serving.engine_name,
        engine_capabilities=engine.capabilities,
        enforces=engine.enforces,
        cluster=serving.engine.cluster,
        models=known_models.all,
        round_seconds=serving.round_seconds,
        scheduler_named=serving.scheduler_named,
        restart_cost_seconds=serving.restart_cost_seconds,
    )
    url = next((_url(each) for each in listeners if each.family != socket.AF_UNIX), None)
    write_endpoint(serving.home, url, starting=True)
    try:
        controller = Controller(store, engine, status, serving.home, lambda: serving.limits.current)
    except BaseException:
        remove_endpoint(serving.home)
        raise
    web = server(
        add_pages(create_app(store, status, serving.home, serving.limits, OutputReader(engine.read_output)))
    )
    failure: list[BaseException] = []

    def conduct() -> None:
        try:
            controller.run()
        except BaseException as error:
            log.critical("the controller failed", exc_info=True)
            failure.append(error)
        finally:
            web.should_exit = True

    warnings = [*notes, *_warnings(serving, engine.capabilities, store, url)]
    thread = threading.Thread(target=conduct, name="controller")
    leave_out_of_collections()
    write_endpoint(serving.home, url)
    threading.Thread(target=serving.limits.reload_on_request, name="limits", daemon=True).start()
    _handle_signals(web, serving.limits)
    thread.start()
    cluster = serving.engine.cluster
    path = str(socket_path(serving.home))
    log.info(
        "serving",
        socket=path,
        url=url,
        scheduler=status.scheduler,
        cluster=cluster.name,
        enforces=status.enforces,
    )
    where = path if url is None else f"{path} and {url}"
    say(
        f"Muster serves {gpus(cluster.total_gpus)} of {cluster.name} by {status.scheduler} at {where}; "
        f"{status.enforces}"
    )
    for warning in warnings:
        log.warning(warning)
        say(f"Note: {warning}.")
    try:
        web.run(sockets=list(listeners))
    finally:
        controller.stop()
        thread.join()
        remove_endpoint(serving.home)
    log.info("stopped", running=len(controller.jobs.starts))
    if failure:
        raise failure[0]


def leave_out_of_collections() -> None:
    """What is there now stays: each look through it for unreachable cycles stopped all threads for 0.1 s."""
    gc.collect()
    gc.freeze()


def _opened(serving: Serving, context: EngineContext) -> Engine:
    """The engine, which can carry out what the scheduler decides. InputError if it cannot be used."""
    try:
        engine = serving.engine.open(context)
    except OSError as error:  # something may live that cannot be looked at
        where = str(error.filename or f"engine {serving.engine_name}")
        raise InputError(Problem(where, f"cannot be used: {error.strerror or error}")) from None
    even_gangs = engine.capabilities.same_amounts_on_each_node
    check_scheduler(serving.scheduler, serving.engine_name, even_gangs=even_gangs)
    return engine


def _warnings(serving: Serving, engine: EngineCapabilities, store: Store, url: str | None) -> Iterator[str]:
    """What the operator may not know, as sentences without their full stops."""
    if engine.runs_as_users and (shut := shut_to_others(serving.home)):
        yield shut
    if ignored := ignored_of_earlier_jobs(store.living(), serving.scheduler):
        yield ignored
    if url is None or serving.listen is None:
        return
    if not ip_address(serving.listen[0]).is_loopback:
        yield f"tokens travel in the clear to {url}; put a TLS server before it (docs/how-to/service.md)"
    if all(row.revoked is not None for row in store.tokens()):
        yield f"{url} refuses every request until there is a token: muster token create NAME"
    elif alike := together(engine):
        yield f"tokens do not keep jobs apart: {alike}"


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


@contextmanager
def _listening(serving: Serving) -> Iterator[list[socket.socket]]:
    """The sockets that the daemon serves: the Unix socket of its home, and one on TCP if asked for.

    They listen already, so that clients which come before the server runs wait, and are not turned away.
    """
    path = socket_path(serving.home)
    with ExitStack() as stack:
        # Every account can connect to a daemon of root, which knows it by its account.
        local = stack.enter_context(bind(path, 0o666 if os.geteuid() == 0 else 0o600))
        stack.callback(path.unlink, missing_ok=True)
        tcp = [] if serving.listen is None else [stack.enter_context(_on_tcp(*serving.listen))]
        yield [local, *tcp]


def _on_tcp(host: str, port: int) -> socket.socket:
    """A listening socket; InputError where the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends at once (TCP_NODELAY) only where the protocol is named; else an answer waits for an
    # acknowledgement of its header, which the other side delays by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        what = f"cannot be listened on: {error.strerror}. Hint: port 0 takes any that is free"
        raise InputError(Problem("--listen", what, found=f"{host}:{port}")) from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


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
