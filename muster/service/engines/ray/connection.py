"""The daemon's side of its link to Ray: starts the process, asks it, and ends it if it does not answer in time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, TypeVar

from muster.service.engines.ray.messages import FolderAnswers, FolderTrial, Look, NodesOnly, Turn

_Answer = TypeVar("_Answer")

CONNECT_SECONDS = 40.0
"""For Ray's library to load, and to reach the head."""
ANSWER_SECONDS = 30.0
"""For one request; more than the link itself waits for any agent."""
_KNOCK_SECONDS = 5.0
"""For a head on a busy machine, to be reached and to answer; one that is not busy takes milliseconds."""
_TLS = "RAY_USE_TLS"
"""Variable with which Ray encrypts its connections: then only Ray itself can ask the head."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""Begins a connection of HTTP/2, with no settings of its own (RFC 9113, 3.4)."""
_FRAME_BYTES, _FRAME_TYPE, _SETTINGS = 9, 3, 4
"""Length of a frame's head, where its type stands in it, and the type of settings."""
_SHOWN_BYTES = 40
_LOG_BYTES = 2000


class RayError(OSError):
    """Ray cannot be reached, or has not answered; nothing is known of the effect of a request."""

    cause = "Ray does not answer. Hint: ray status"
    """Without the name of a job, user or host."""


class NodeUnreachable(RayError):
    """A node of Ray does not take a command, or is away; the others do."""

    cause = "a node of Ray is away. Hint: muster nodes"


class RayConnection:
    """A link to one Ray cluster, started again whenever it is needed and not there."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.starts = 0
        """How many links there were."""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: Connection | None = None
        self._log: IO[bytes] | None = None
        """What the link prints."""

    def open(self) -> None:
        """Start a link unless there is one. RayError if Ray cannot be reached."""
        if self._process is None or self._process.poll() is not None:
            self.close()
            knock(self.address)
            self._start()

    def ask(self, request: Turn | NodesOnly) -> Look:
        """Return the link's answer. RayError if there is none in time; the link is ended then."""
        return self._asked(request, Look)

    def try_folder(self, folder: Path, token: str) -> Mapping[str, str]:
        """Return what is wrong with a folder on nodes whose agents are up. RayError if there are none."""
        problems = self._asked(FolderTrial(str(folder), token), FolderAnswers).problems
        if not problems:
            raise RayError("no agent is free")
        return problems

    def _asked(self, request: Turn | NodesOnly | FolderTrial, kind: type[_Answer]) -> _Answer:
        self.open()
        assert self._socket is not None
        try:
            self._socket.send(request)
            answer = self._receive(ANSWER_SECONDS)
        except (EOFError, OSError) as error:
            raise self._failed(error) from error
        if not isinstance(answer, kind):
            raise self._failed(TypeError(f"unexpected {type(answer).__name__}"))
        return answer

    def close(self) -> None:
        """End the link."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for file in (self._socket, self._log):
            if file is not None:
                file.close()
        self._process = self._socket = self._log = None

    def _start(self) -> None:
        ours, its = socket.socketpair()
        with its:
            self._socket = Connection(ours.detach())
            self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the link
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", f"{__package__}.link", str(its.fileno()), self.address],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[its.fileno()],
                cwd="/",
            )
        self.starts += 1
        try:
            problem = self._receive(CONNECT_SECONDS)
        except (EOFError, OSError) as error:
            raise self._failed(error) from error
        if problem:
            self.close()
            raise RayError(f"Ray at {self.address} cannot be used: {problem}")

    def _receive(self, seconds: float) -> object:
        assert self._socket is not None
        if not self._socket.poll(seconds):
            raise TimeoutError(f"no answer within {seconds:g} s")
        return self._socket.recv()

    def _failed(self, error: Exception) -> RayError:
        """End the link; the error to raise, with what the link itself printed last."""
        words = str(error) if isinstance(error, TimeoutError) else self._last_words() or str(error)
        self.close()
        return RayError(f"Ray at {self.address} does not answer: {words}")

    def _last_words(self) -> str:
        """Return the last line that the link printed; Ray says there why it ends a process."""
        if self._log is not None:
            size = os.fstat(self._log.fileno()).st_size
            text = os.pread(self._log.fileno(), _LOG_BYTES, max(0, size - _LOG_BYTES)).decode(
                errors="replace"
            )
            return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
        return ""


def knock(address: str) -> None:
    """Raise RayError if nothing listens at HOST:PORT, or something that is not the head of a Ray cluster.

    A head speaks gRPC, so it answers the beginning of an HTTP/2 connection with its settings at once.
    """
    host, _, port = address.rpartition(":")
    try:
        door = socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_SECONDS)
    except OSError as error:
        what = error.strerror or str(error)
        raise RayError(f"no head of a Ray cluster listens at {address}: {what}") from error
    with door:
        if os.environ.get(_TLS, "0").lower() in ("0", "false"):
            _check_answer(address, door)


def _check_answer(address: str, door: socket.socket) -> None:
    expected = "allowed: the head of a Ray cluster"
    said = b""
    try:
        door.sendall(_PREFACE)
        while len(said) < _FRAME_BYTES and (more := door.recv(_LOG_BYTES)):
            said += more
    except TimeoutError as error:
        what = f"what listens at {address} has not answered within {_KNOCK_SECONDS:g} s; {expected}"
        raise RayError(what) from error
    except OSError as error:
        raise RayError(f"what listens at {address} hangs up; {expected}") from error
    if len(said) < _FRAME_BYTES or said[_FRAME_TYPE] != _SETTINGS:
        words = f"says {said[:_SHOWN_BYTES]!r}" if said else "hangs up"
        raise RayError(f"what listens at {address} {words}; {expected}")
