"""What open pages cost the daemon, and how soon they show a change: `python -m benchmarks.pages`.

A real `muster serve` on fake nodes with 10,000 jobs; requests and streams of the pages come from this process. A page
that is looked at is fetched again every 30 s where nothing changes, so so many pages at rest are that many fetches.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from benchmarks.service import QUEUED, daemon, job
from muster.service.client import Client
from muster.service.home import read_endpoint

OPEN, REST_SECONDS, REFRESH_SECONDS, CHANGES = 100, 30.0, 30.0, 20
PATHS = ("/", "/nodes", "/jobs", "/jobs/1", "/timeline", "/users")
_TICKS = os.sysconf("SC_CLK_TCK")


class Visitor:
    """A person's session."""

    def __init__(self) -> None:
        with Client.of_environment() as client:
            made = client.post("/v1/login-codes")
        self.host = urlsplit(made["url"]).netloc
        connection = self.connect()
        body = json.dumps({"code": made["code"]})
        headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        connection.request("POST", "/v1/session", body, headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        self.headers = {"Cookie": answer.headers["set-cookie"].split(";")[0]}

    def connect(self) -> http.client.HTTPConnection:
        """A connection of its own."""
        return http.client.HTTPConnection(self.host, timeout=60)

    def fetch(self, path: str) -> float:
        """Seconds until a page is here."""
        connection = self.connect()
        began = time.perf_counter()
        connection.request("GET", path, headers=self.headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        connection.close()
        return time.perf_counter() - began

    @contextmanager
    def following(self) -> Iterator[http.client.HTTPResponse]:
        """The stream of events."""
        connection = self.connect()
        connection.request("GET", "/v1/events", headers=self.headers)
        answer = connection.getresponse()
        answer.readline()
        yield answer
        connection.close()


def main() -> None:
    """Measure and print."""
    table = Table("what", "figure", title=f"{QUEUED:,} jobs, {OPEN} open pages")
    with daemon("las", "--listen", "127.0.0.1:0") as environment:
        with Client.of_environment() as client:
            client.post("/v1/jobs:batch", {"jobs": [job()] * QUEUED})
        time.sleep(10.0)
        visitor = Visitor()
        for path in PATHS:
            took = [visitor.fetch(path) for _ in range(10)]
            table.add_row(f"page {path}, median", f"{1000 * statistics.median(took):.0f} ms")
        endpoint = read_endpoint(Path(environment["MUSTER_HOME"]))
        assert endpoint is not None
        with ExitStack() as stack:
            idle = _cpu_share(endpoint.pid, REST_SECONDS)
            streams = [stack.enter_context(visitor.following()) for _ in range(OPEN)]
            stop = threading.Event()
            refresher = threading.Thread(target=_refresh, args=(visitor, stop))
            refresher.start()
            busy = _cpu_share(endpoint.pid, REST_SECONDS)
            stop.set()
            refresher.join()
            table.add_row("daemon at rest, share of a core without pages", f"{idle:.1%}")
            table.add_row("with them", f"{busy:.1%}")
            delays = [_until_seen(streams[-1]) for _ in range(CHANGES)]
            table.add_row(
                "from a submission to the last page's event, median", f"{statistics.median(delays):.2f} s"
            )
            table.add_row("the slowest", f"{max(delays):.2f} s")
    Console().print(table)


def _refresh(visitor: Visitor, stop: threading.Event) -> None:
    at = 0
    while not stop.wait(REFRESH_SECONDS / OPEN):
        visitor.fetch(PATHS[at % len(PATHS)])
        at += 1


def _until_seen(stream: http.client.HTTPResponse) -> float:
    began = time.perf_counter()
    with Client.of_environment() as client:
        submitted = client.post("/v1/jobs", job())["job_id"]
    while f'"job_id": {submitted}'.encode() not in stream.readline():
        pass
    return time.perf_counter() - began


def _cpu_share(pid: int, seconds: float) -> float:
    """Of one core, over some time."""
    before = _cpu_seconds(pid)
    time.sleep(seconds)
    return (_cpu_seconds(pid) - before) / seconds


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


if __name__ == "__main__":
    main()
