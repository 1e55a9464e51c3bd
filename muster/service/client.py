"""A client of a daemon: finds its address, returns answers as Python values, raises refusals and failures."""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from muster.problems import InputError, Problem, Unable
from muster.service.home import homes_to_ask, read_endpoint, socket_path
from muster.service.unix_socket import SCHEME, connect

_SECONDS = 300.0
"""Without a word from the daemon: where it has never simulated before, `why` compiles first."""
_SILENT_SECONDS = 2.0
"""Without a word from us."""
_PIECE = 2**20
Answer = TypeVar("Answer")


class Refusal(InputError):
    """What the daemon did not do because of what was asked, in its own words."""

    def __init__(self, status: int, message: str, problems: list[Problem]) -> None:
        super().__init__(*problems)
        self.http_status = status
        self.message = message

    def __str__(self) -> str:
        return self.message


class Unanswered(Unable):
    """No daemon answers, or one that cannot do its work."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.http_status = status
        """Of HTTP; None: there was none."""


class Unknown(Unanswered):
    """The answer was lost, and with it whether that which was asked has been done."""


@dataclass(frozen=True)
class OutputPart:
    """A part of a job's output."""

    data: bytes
    next_offset: int
    state: str
    """The job's, when it was read."""


class Client:
    """One connection to a daemon, kept open until the end of `with`."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self.waiting_for = f"The daemon at {url} has not answered yet; waiting for it."
        """What is said, once, where an answer takes a while; empty: nothing, as beside a live view."""
        self._connection = _connection(url)
        self._headers = {"Accept": "application/json"} | (
            {} if token is None else {"Authorization": f"Bearer {token}"}
        )

    @classmethod
    def of_environment(cls) -> Client:
        """To MUSTER_URL, else to the daemon of the home, else to the machine's; Unanswered says how to start one."""
        url = os.environ.get("MUSTER_URL")
        if not url:
            homes = homes_to_ask()
            found = ((home, endpoint) for home in homes if (endpoint := read_endpoint(home)))
            home, endpoint = next(found, (None, None))
            if home is None or endpoint is None:
                raise _no_daemon_at(f"in {' or '.join(map(str, homes))}")
            url = f"{SCHEME}{socket_path(home)}"
            if endpoint.starting:
                print("The daemon is starting; waiting for it.", file=sys.stderr)
        token = os.environ.get("MUSTER_TOKEN")
        if token and not (token.isascii() and token.isprintable()):
            raise InputError(Problem("MUSTER_TOKEN", "allowed: one line of plain letters, as it was shown"))
        return cls(url, token or None)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str, **query: Any) -> Any:
        """The answer to GET; query entries of None are left out, lists repeated."""
        with self._asking("GET", path + _query(query)) as answer:
            return self._value(answer)

    def post(self, path: str, body: Any = None) -> Any:
        """The answer to POST; Unknown if it was lost after the request was sent."""
        with self._asking("POST", path, body) as answer:
            return self._value(answer)

    def output(self, job: int, rank: int, offset: int) -> OutputPart:
        """What a job has written from an offset on, a part of it."""
        query = _query({"rank": rank, "offset": offset, "limit": _PIECE})
        with self._asking("GET", f"/v1/jobs/{job}/logs{query}") as answer:
            following, state = (answer.headers.get(f"Muster-{name}") for name in ("Next-Offset", "Job-State"))
            if following is None or state is None or not following.isdecimal():
                raise self._no_daemon()
            return OutputPart(answer.read(), int(following), state)

    def download(self, path: str) -> Iterator[bytes]:
        """A large answer in pieces."""
        with self._asking("GET", path) as answer:
            while piece := answer.read(_PIECE):
                yield piece

    @contextmanager
    def _asking(self, method: str, path: str, body: Any = None) -> Iterator[http.client.HTTPResponse]:
        """Send a request; the body reads the answer. Whatever goes wrong on the way is an exception with a message."""
        sent = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({} if sent is None else {"Content-Type": "application/json"})
        try:
            answer = self._answer(method, path, sent, headers)
            if answer.status >= 400:
                raise _refusal(answer.status, answer.read())
            if answer.status >= 300:
                raise self._sent_on(answer.headers.get("Location", "elsewhere"))
            yield answer
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            how = f"was silent for {_SECONDS:g} s" if isinstance(error, TimeoutError) else "hung up"
            lost = f"the daemon at {self.url} {how} before its answer was whole"
            if method == "GET":
                raise Unanswered(lost) from None
            raise Unknown(f"{lost}; what was asked may have been done all the same") from None

    def _answer(
        self, method: str, path: str, sent: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        # Nothing is to be read while nothing is asked, but for the end: a daemon hangs up after a while.
        if self._connection.sock is not None and _is_readable(self._connection.sock, 0.0):
            self._connection.close()
        if self._connection.sock is not None:
            try:
                self._connection.request(method, path, sent, headers)
                return self._response()
            except (ConnectionError, http.client.BadStatusLine):
                # The daemon has ended the connection while it was asked.
                if method != "GET":
                    raise
                self._connection.close()
        self._connect()
        self._connection.request(method, path, sent, headers)
        return self._response()

    def _response(self) -> http.client.HTTPResponse:
        if self.waiting_for and not _is_readable(self._connection.sock, _SILENT_SECONDS):
            print(self.waiting_for, file=sys.stderr, flush=True)
            self.waiting_for = ""
        return self._connection.getresponse()

    def _connect(self) -> None:
        """Nothing has been asked yet where this fails."""
        try:
            self._connection.connect()
        except ssl.SSLError as error:
            raise Unanswered(f"{self.url}: no safe connection: {error.reason or error}") from None
        except PermissionError:
            what = "this account may not use the daemon. Hint: with a token, use its TCP address (MUSTER_URL)"
            raise Unanswered(f"{self.url}: {what}") from None
        except OSError:
            raise _no_daemon_at(f"at {self.url}") from None

    def _value(self, answer: http.client.HTTPResponse) -> Any:
        try:
            return json.loads(answer.read())
        except ValueError:
            raise self._no_daemon() from None

    def _no_daemon(self) -> Unanswered:
        return Unanswered(f"what answers at {self.url} is no daemon of Muster's")

    def _sent_on(self, where: str) -> InputError:
        what = f"the server there redirects to {where}, which requests do not follow. Hint: name that address itself"
        return InputError(Problem("MUSTER_URL", what, found=self.url))


def _is_readable(connection: socket.socket, seconds: float) -> bool:
    """Whether something comes from the other side within so many seconds: a part of an answer, or the end."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = connect(self._path, _SECONDS)


class PatientClient:
    """For looking again and again: it outlives its daemon, and finds the next one wherever that listens."""

    def __init__(self) -> None:
        self._client: Client | None = Client.of_environment()
        self._has_answered = False

    def __enter__(self) -> PatientClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._hang_up()

    def ask(self, what: Callable[[Client], Answer], wait: Callable[[Unable], None]) -> Answer:
        """What a daemon answers. While none does `wait` is called with the reason, unless none has answered before."""
        while True:
            try:
                self._client = self._client or Client.of_environment()
                self._client.waiting_for = ""
                answer = what(self._client)
            except Unable as why:
                if not self._has_answered:
                    raise
                self._hang_up()
                wait(why)
            else:
                self._has_answered = True
                return answer

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.__exit__()
            self._client = None


def node_path(name: str, what: str) -> str:
    """The path for something to do to a node."""
    return f"/v1/nodes/{quote(name, safe='')}/{what}"


def _query(query: Mapping[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"?{urlencode(given, doseq=True)}" if given else ""


def _connection(url: str) -> http.client.HTTPConnection:
    if url.startswith(SCHEME):
        return UnixConnection(Path(url.removeprefix(SCHEME)))
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.path not in ("", "/"):
        allowed = "allowed: http://HOST:PORT, https://HOST, unix:///PATH"
        raise InputError(Problem("MUSTER_URL", allowed, found=url))
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(host, port, timeout=_SECONDS)


def _no_daemon_at(where: str) -> Unanswered:
    return Unanswered(f"daemon: none answers {where}; muster serve starts one")


def _refusal(status: int, body: bytes) -> Refusal | Unanswered:
    problems: list[Problem] = []
    try:
        error = json.loads(body)["error"]
        message = str(error["message"])
        problems = [Problem(**problem) for problem in error["problems"]]
    except (ValueError, KeyError, TypeError):
        message = f"the daemon answered with status {status}, in no words of Muster's"
    return Unanswered(message, status) if status >= 500 else Refusal(status, message, problems)
