"""The daemon: store, engine, conductor and API in one process. Jobs run on without it and are found again."""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import structlog
import uvicorn

from muster.cluster import Cluster
from muster.problems import BadInput, Problem
from muster.schedulers.contract import Scheduler
from muster.service.api import create_app, server
from muster.service.board import Board
from muster.service.callers import check_bind
from muster.service.conductor import Conductor
from muster.service.engines import Engine
from muster.service.home import claimed, make_home, remove_endpoint, store_url, write_endpoint
from muster.service.known_models import KnownModels
from muster.service.rehearsal import rehearse
from muster.service.store import Store
from muster.service.store.rows import JobRow
from muster.service.tokens import LivingTokens

Lookup: TypeAlias = Callable[[int], JobRow]
"""What the conductor knows of a living job."""
EngineMaker: TypeAlias = Callable[[Lookup], Engine]

_SWITCH_SECONDS = 0.0005
"""For which one thread may keep the others from running Python. A request changes threads some times; with the usual
5 ms each of them would wait so long while the conductor is at work."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Serving:
    """What a daemon is started with."""

    home: Path
    cluster: Cluster
    engine: EngineMaker
    """Made once the home is this daemon's alone."""
    scheduler: Scheduler
    round_seconds: float
    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free."""
    store: str | None = None
    """URL; None: SQLite in the home."""


def serve(serving: Serving, say: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT. `say` gets a line for people once it serves."""
    _log_as_json()
    sys.setswitchinterval(_SWITCH_SECONDS)
    make_home(serving.home)
    with claimed(serving.home):
        store = Store.open(serving.store or store_url(serving.home))
        try:
            check_bind(serving.host, has_tokens=bool(LivingTokens(store).read()))
            with store.claimed(), _listening(serving.host, serving.port) as listener:
                _serve(serving, store, listener, say)
        finally:
            store.close()


def _serve(serving: Serving, store: Store, listener: socket.socket, say: Callable[[str], None]) -> None:
    engine = serving.engine(lambda job: conductor.jobs.rows[job])
    board = Board(
        policy=serving.scheduler,
        engine=engine.name,
        enforces=engine.enforces,
        cluster=serving.cluster,
        models=KnownModels(serving.home).all,
        round_seconds=serving.round_seconds,
    )
    rehearse(board)
    conductor = Conductor(store, engine, board, serving.home)
    web = server(create_app(store, board, serving.home))
    failure: list[BaseException] = []

    def conduct() -> None:
        try:
            conductor.run()
        except BaseException as error:
            log.critical("the conductor failed", exc_info=True)
            failure.append(error)
        finally:
            web.should_exit = True

    thread = threading.Thread(target=conduct, name="conductor")
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    write_endpoint(serving.home, url)
    _stop_on_signals(web)
    thread.start()
    cluster = serving.cluster
    log.info("serving", url=url, scheduler=board.scheduler, cluster=cluster.name, enforces=board.enforces)
    say(f"{url} serves {cluster.total_gpus} GPUs of {cluster.name} by {board.scheduler}; {board.enforces}")
    try:
        web.run(sockets=[listener])
    finally:
        conductor.stop()
        thread.join()
        remove_endpoint(serving.home)
    log.info("stopped", running=len(conductor.jobs.starts))
    if failure:
        raise failure[0]


def _stop_on_signals(web: uvicorn.Server) -> None:
    """SIGTERM and SIGINT mean: stop in good order. uvicorn raises them once more when it has ended."""

    def stop(*_: object) -> None:
        web.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _listening(host: str, port: int) -> socket.socket:
    """A socket that is bound already, so that a port which is taken is told in words."""
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
        raise BadInput(Problem("--listen", what, found=f"{host}:{port}")) from None
    return listener


def _log_as_json() -> None:
    """One JSON object a line on standard error."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
