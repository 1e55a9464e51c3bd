"""A way to a PostgreSQL server that is cut at the moment of a commit, once the server has done it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_COMMIT = b"COMMIT\x00"


class Relay:
    """Passes bytes on between clients and a server, both on sockets in folders."""

    def __init__(self, server: Path, folder: Path) -> None:
        self.armed = False
        """The next commit is done and its answer lost."""
        self.cut = 0
        """How many were."""
        self._server = server
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.fspath(folder / server.name))
        self._listener.listen()

    def serve(self) -> None:
        """Until `close`."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(os.fspath(self._server))
            threading.Thread(target=self._pass, args=(client, server), daemon=True).start()
            threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def close(self) -> None:
        """No new clients."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        while data := _received(client):
            if self.armed and _COMMIT in data:
                self.armed = False
                self.cut += 1
                client.shutdown(socket.SHUT_RDWR)  # Before the server has heard it.
                server.sendall(data)
                break
            server.sendall(data)
        with suppress(OSError):  # The server may have ended it first.
            server.shutdown(socket.SHUT_WR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        while data := _received(server):
            try:
                client.sendall(data)
            except OSError:
                break
        for end in (client, server):
            end.close()


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


@contextmanager
def cutting(server: Path, folder: Path) -> Iterator[Relay]:
    """A relay to a server's socket; its own is in the folder, under the same name."""
    relay = Relay(server, folder)
    thread = threading.Thread(target=relay.serve)
    thread.start()
    try:
        yield relay
    finally:
        relay.close()
        thread.join()
