"""The server under the application."""

from __future__ import annotations

import asyncio

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from muster.service.unix_socket import peer_uid

_SHUTDOWN_SECONDS = 5


class _Connection(H11Protocol):
    """HTTP whose requests have in their state the account at the other end (`peer_uid`; None over TCP)."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Read the account once for all requests of the connection."""
        super().connection_made(transport)
        self.app_state = self.app_state | {"peer_uid": peer_uid(transport.get_extra_info("socket"))}


def server(app: FastAPI) -> uvicorn.Server:
    """A server for `server(app).serve(sockets=[...])` or `.run(...)`; the caller has bound the sockets."""
    return uvicorn.Server(
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
