"""The way to a daemon: its address found, its answers as Python values, its refusals as BadInput."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from muster.problems import BadInput, Problem
from muster.service.home import home_folder, read_endpoint

_SECONDS = 300.0
"""Without a word from the daemon: where it has never simulated before, `why` compiles first."""
_PIECE = 2**20


class Refusal(BadInput):
    """What the daemon did not do, in its own words."""

    def __init__(self, status: int, message: str, problems: list[Problem]) -> None:
        super().__init__(*problems)
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Piece:
    """A part of a job's output."""

    data: bytes
    next_offset: int
    state: str
    """The job's, when it was read."""


class Client:
    """One connection to a daemon, kept open until the end of `with`."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self._connection = _connection(url)
        self._headers = {"Accept": "application/json"} | (
            {} if token is None else {"Authorization": f"Bearer {token}"}
        )

    @classmethod
    def of_environment(cls) -> Client:
        """To MUSTER_URL, else to the daemon of MUSTER_HOME; BadInput says how to start one."""
        url = os.environ.get("MUSTER_URL")
        if not url:
            endpoint = read_endpoint(home_folder())
            if endpoint is None:
                raise _nobody_there(f"in {home_folder()}")
            url = endpoint.url
        token = os.environ.get("MUSTER_TOKEN")
        if token and not (token.isascii() and token.isprintable()):
            raise BadInput(Problem("MUSTER_TOKEN", "one line of plain letters, as it was shown, is needed"))
        return cls(url, token or None)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str, **query: Any) -> Any:
        """The answer to GET; query entries of None are left out, lists repeated."""
        return json.loads(self._ask("GET", path + _query(query)).read())

    def post(self, path: str, body: Any = None) -> Any:
        """The answer to POST."""
        return json.loads(self._ask("POST", path, body).read())

    def output(self, job: int, rank: int, offset: int) -> Piece:
        """What a job has written from an offset on, a part of it."""
        query = _query({"rank": rank, "offset": offset, "limit": _PIECE})
        answer = self._ask("GET", f"/v1/jobs/{job}/logs{query}")
        headers = answer.headers
        return Piece(
            answer.read(),
            int(headers.get("Muster-Next-Offset", offset)),
            str(headers.get("Muster-Job-State", "")),
        )

    def download(self, path: str) -> Iterator[bytes]:
        """A large answer in pieces."""
        answer = self._ask("GET", path)
        while piece := answer.read(_PIECE):
            yield piece

    def _ask(self, method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
        sent = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({} if sent is None else {"Content-Type": "application/json"})
        try:
            answer = self._answer(method, path, sent, headers)
            if answer.status < 400:
                return answer
            raise _refusal(answer.status, answer.read())
        except ssl.SSLError as error:
            raise BadInput(Problem(self.url, f"no safe connection: {error.reason or error}")) from None
        except (OSError, http.client.HTTPException):
            raise _nobody_there(f"at {self.url}") from None

    def _answer(
        self, method: str, path: str, sent: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        kept_open = self._connection.sock is not None
        try:
            self._connection.request(method, path, sent, headers)
            return self._connection.getresponse()
        except (ConnectionError, http.client.BadStatusLine):
            self._connection.close()
            if not kept_open or method != "GET":
                raise
        # A daemon ends connections that were idle for a while.
        self._connection.request(method, path, sent, headers)
        return self._connection.getresponse()


def node_path(name: str, what: str) -> str:
    """The path for something to do to a node."""
    return f"/v1/nodes/{quote(name, safe='')}/{what}"


def _query(query: Mapping[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(given, doseq=True)}" if given else ""


def _connection(url: str) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.path not in ("", "/"):
        raise BadInput(Problem("MUSTER_URL", "http://HOST:PORT or https://HOST is needed", found=url))
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(host, port, timeout=_SECONDS)


def _nobody_there(where: str) -> BadInput:
    return BadInput(Problem("daemon", f"none answers {where}; muster serve starts one"))


def _refusal(status: int, body: bytes) -> Refusal:
    try:
        told = json.loads(body)["error"]
        problems = [Problem(**problem) for problem in told["problems"]]
        return Refusal(status, told["message"], problems)
    except (ValueError, KeyError, TypeError):
        return Refusal(status, f"the daemon answered with status {status}, in no words of Muster's", [])
