"""The server under the application."""

from __future__ import annotations

import asyncio
import socket

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from muster.service.unix_socket import peer_uid

_SHUTDOWN_SECONDS = 5
_LOOPBACK = "127.0.0.1"


class _Connection(H11Protocol):
    """HTTP whose requests have in their state the account at the other end (`peer_uid`; None over TCP)."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Read the account once for all requests of the connection."""
        super().connection_made(transport)
        self.app_state = self.app_state | {"peer_uid": peer_uid(transport.get_extra_info("socket"))}


class _Server(uvicorn.Server):
    """A server that ends the streams of events before it waits for the last answers, and opens a port for the page."""

    async def page_url(self) -> str:
        """Where a browser of this machine reaches it: on TCP as it listens already, else on a new port of loopback."""
        listening = (each for one in self.servers for each in one.sockets if each.family != socket.AF_UNIX)
        found = next(listening, None)
        if found is None:
            server = await asyncio.get_running_loop().create_server(self._connection, _LOOPBACK, 0)
            self.servers.append(server)
            found = server.sockets[0]
        host, port = found.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def _connection(self) -> asyncio.Protocol:
        return _Connection(self.config, self.server_state, self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving."""
        app: FastAPI = self.config.app  # type: ignore[assignment]
        app.state.service.changes.close()
        await super().shutdown(sockets)


def server(app: FastAPI) -> uvicorn.Server:
    """A server for `server(app).serve(sockets=[...])` or `.run(...)`; the caller has bound the sockets."""
    made = _Server(
        uvicorn.Config(
            app,
            http=_Connection,
            # The kernel or a token names the sender, never a header.
            proxy_headers=False,
            server_header=False,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )
    app.state.page_url = made.page_url
    return made
