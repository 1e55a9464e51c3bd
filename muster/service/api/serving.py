"""The server under the application."""

from __future__ import annotations

import uvicorn
from fastapi import FastAPI

_SHUTDOWN_SECONDS = 5


def server(app: FastAPI) -> uvicorn.Server:
    """A server for `server(app).serve(sockets=[...])` or `.run(...)`; the caller has bound the sockets."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            # Who calls is what the kernel or a token says, never a header.
            proxy_headers=False,
            server_header=False,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
    )
