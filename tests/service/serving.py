"""A daemon's API on a real Unix socket and a real port, on a store of its own, without a controller behind it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from muster.cluster.shipped import parse_cluster
from muster.schedulers.registry import build
from muster.service.api import create_app, server
from muster.service.client import UnixConnection
from muster.service.daemon_status import DaemonStatus
from muster.service.engines import EngineCapabilities
from muster.service.engines.output_reader import OutputReader
from muster.service.engines.run_folders import ReadsRunFolders
from muster.service.home import make_home, socket_path, store_url
from muster.service.known_models import KnownModels
from muster.service.limits import Limits
from muster.service.live_limits import LiveLimits
from muster.service.pages import add_pages
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.unix_socket import SCHEME, bind

CLUSTER = "2x4gpu,8cpu,32gb"


@dataclass(frozen=True)
class Answer:
    """What an HTTP request got."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """Of a failure."""
        return str(self.json["error"]["message"])


@dataclass(frozen=True)
class Serving:
    """A running API."""

    store: Store
    status: DaemonStatus
    home: Path
    port: int
    """On TCP."""

    @property
    def url(self) -> str:
        return f"{SCHEME}{socket_path(self.home)}"

    @property
    def tcp_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        tcp: bool = False,
    ) -> Answer:
        """One request of this account over the Unix socket, or over TCP; a body that is not bytes goes as JSON."""
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = (
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            if tcp
            else UnixConnection(socket_path(self.home))
        )
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), dict(answer.getheaders()))
        finally:
            connection.close()


def a_request(**fields: Any) -> JobRequest:
    """A small job."""
    return JobRequest(**{"name": "job", "command": ("true",), "directory": "/", **fields})


def a_status(home: Path, cluster: str = CLUSTER) -> DaemonStatus:
    """Of a controller that has just looked."""
    return DaemonStatus(
        policy=build("fifo", {}),
        engine="none",
        engine_capabilities=EngineCapabilities(can_resize=True, runs_as_users=False),
        enforces="nothing",
        cluster=parse_cluster(cluster),
        models=KnownModels(home).all,
        round_seconds=60.0,
        ready=True,
    )


@contextmanager
def serving(
    home: Path,
    host: str = "127.0.0.1",
    limits: Limits | None = None,
    output: OutputReader | None = None,
) -> Iterator[Serving]:
    """An API that serves until the end of the body; it reads outputs from files of the home, if not otherwise."""
    make_home(home)
    store = Store.open(store_url(home))
    try:
        with serving_on(store, a_status(home), home, host, limits, output) as running:
            yield running
    finally:
        store.close()


@contextmanager
def serving_on(
    store: Store,
    status: DaemonStatus,
    home: Path,
    host: str = "127.0.0.1",
    limits: Limits | None = None,
    output: OutputReader | None = None,
) -> Iterator[Serving]:
    """The same on a store and a status that are there."""
    live = LiveLimits(None, home)
    if limits is not None:
        live.current = limits
    output = output or OutputReader(ReadsRunFolders().read_output)
    api = server(add_pages(create_app(store, status, home, live, output)))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    path = socket_path(home)
    # What the daemon logs must not come between what a command prints.
    with (
        socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener,
        bind(path, 0o666) as local,
        capture_logs(),
    ):
        listener.bind((host, 0))
        listener.listen()
        thread = threading.Thread(target=api.run, args=([local, listener],))
        thread.start()
        try:
            yield Serving(store, status, home, listener.getsockname()[1])
        finally:
            api.should_exit = True
            thread.join()
            path.unlink()
