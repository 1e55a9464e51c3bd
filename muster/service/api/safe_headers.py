"""No answer can be taken for a page, be framed by one, or run anything, unless the answer itself allows more."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from muster.service.api.limits import Application, Message, Receive, Send

HEADERS = {
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
}


class SafeHeaders:
    """Stands before the application."""

    def __init__(self, app: Application) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Add the headers that an answer does not have."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                added = [(name, value) for name, value in HEADERS.items() if name not in there]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        await self._app(scope, receive, send_safely)
