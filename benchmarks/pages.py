"""What open pages cost the daemon, how soon they show a change, and whether decisions wait for them.

`python -m benchmarks.pages`: a real `muster serve` on fake nodes with 10,000 jobs; the pages are in this process. Each
does what the script of a page does: it follows the events, and fetches its body again when one comes, at most every
0.7 s, unless the daemon says that it has not changed. At rest means that all jobs that fit have started, and nothing
starts, ends or is submitted. So the scheduler is fifo: las preempts jobs as they run, and is never at rest.

How soon a change shows is also measured in Chromium, by the clock of the page: it submits a job, and counts until the
frame that shows it.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

from benchmarks.service import QUEUED, daemon, job
from muster.service.client import Client
from muster.service.home import read_endpoint

OPEN, REST_SECONDS, CHANGES = 100, 30.0, 10
LEAST_PAUSE = 0.7
FITTING = 4096
GIVE_UP_SECONDS = 60.0
PATHS = ("/", "/nodes", "/jobs", "/jobs/1", "/timeline", "/users")
_SUBMIT_AND_SEE = """async (job) => {
    const main = () => document.querySelector("main").textContent;
    const began = performance.now();
    const shown = new Promise((done) => {
        const watch = new MutationObserver(() => {
            if (!main().includes(job.name)) return;
            watch.disconnect();
            requestAnimationFrame(() => setTimeout(() => done((performance.now() - began) / 1000)));
        });
        watch.observe(document.body, { subtree: true, childList: true, characterData: true });
    });
    const headers = { "Content-Type": "application/json" };
    await fetch("/v1/jobs", { method: "POST", headers, body: JSON.stringify(job) });
    return shown;
}"""
_TICKS = os.sysconf("SC_CLK_TCK")


class Visitor:
    """A person's session."""

    def __init__(self, host: str, headers: dict[str, str]) -> None:
        self.host, self.headers = host, headers

    @classmethod
    def logged_in(cls) -> Visitor:
        """This account's, at the daemon of the environment."""
        with Client.of_environment() as client:
            made = client.post("/v1/login-codes")
        host = urlsplit(made["url"]).netloc
        connection = http.client.HTTPConnection(host, timeout=60)
        body = json.dumps({"code": made["code"]})
        headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        connection.request("POST", "/v1/session", body, headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return cls(host, {"Cookie": answer.headers["set-cookie"].split(";")[0]})

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


class OpenPage(threading.Thread):
    """A page that is looked at."""

    def __init__(self, visitor: Visitor, path: str) -> None:
        super().__init__(daemon=True)
        self._visitor, self._path, self._tag = visitor, path, ""
        self._changed = threading.Event()
        self.fetched = 0
        """Bodies that have come."""
        self.asked = 0
        self.shows_at = 0.0
        """When it showed the last body, by `time.perf_counter`."""

    def run(self) -> None:
        """Follow the events."""
        threading.Thread(target=self._refresh, daemon=True).start()
        with self._visitor.following() as stream:
            while line := stream.readline():
                if line.startswith(b"event:"):
                    self._changed.set()

    def _refresh(self) -> None:
        while True:
            self._changed.wait()
            time.sleep(max(0.05, LEAST_PAUSE - (time.perf_counter() - self.shows_at)))
            self._changed.clear()
            headers = self._visitor.headers | {"Muster-Part": "main", "If-None-Match": self._tag}
            connection = self._visitor.connect()
            connection.request("GET", self._path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            if answer.status not in (200, 304):
                raise RuntimeError(f"{self._path}: {answer.status}")
            self._tag = answer.headers["ETag"]
            self.asked += 1
            self.fetched += answer.status == 200
            self.shows_at = time.perf_counter()


def main() -> None:
    """Measure and print."""
    with daemon("fifo", "--listen", "127.0.0.1:0") as environment:
        with Client.of_environment() as client:
            client.post("/v1/jobs:batch", {"jobs": [job()] * QUEUED})
        _wait_for_rest()
        visitor = Visitor.logged_in()
        for path in PATHS:
            took = [_after_a_change(visitor, path) for _ in range(5)]
            _note(f"page {path} after a change, median", f"{1000 * statistics.median(took):.0f} ms")
        endpoint = read_endpoint(Path(environment["MUSTER_HOME"]))
        assert endpoint is not None
        with _browsed(visitor, "/jobs") as browser:
            _note(
                "from a submission to its frame in Chromium",
                _shown(_in_frame(browser) for _ in range(CHANGES)),
            )
        _wait_for_rest()
        idle = _cpu_share(endpoint.pid, REST_SECONDS)
        _note("from a submission to its decision without pages", _shown(_decided() for _ in range(CHANGES)))
        pages = [OpenPage(visitor, PATHS[at % len(PATHS)]) for at in range(OPEN)]
        for page in pages:
            page.start()
        _wait_for_rest()
        asked = sum(page.asked for page in pages)
        rest = _cpu_share(endpoint.pid, REST_SECONDS)
        asked = sum(page.asked for page in pages) - asked
        _note("daemon at rest, share of a core without pages", f"{idle:.1%}")
        _note("with them", f"{rest:.1%}")
        _note("bodies that they asked for", f"{asked:,}")
        _note(
            "from a submission to the last page that shows it",
            _shown(_all_show(pages) for _ in range(CHANGES)),
        )
        _note("from a submission to its decision with them", _shown(_decided() for _ in range(CHANGES)))
        with _browsed(visitor, "/jobs") as browser:
            shown = _shown(_in_frame(browser) for _ in range(CHANGES))
            _note("from a submission to its frame in Chromium with them", shown)


@contextmanager
def _browsed(visitor: Visitor, path: str) -> Iterator[Page]:
    """A page in Chromium that follows the daemon."""
    name, _, value = visitor.headers["Cookie"].partition("=")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1360, "height": 850})
        context.add_cookies([{"name": name, "value": value, "url": f"http://{visitor.host}"}])
        page = context.new_page()
        page.goto(f"http://{visitor.host}{path}")
        page.get_by_role("status").filter(has_text="live").wait_for()
        yield page
        browser.close()


def _in_frame(page: Page) -> float:
    """Seconds from a submission by the page to the frame that shows the job."""
    time.sleep(2.0)
    found: float = page.evaluate(_SUBMIT_AND_SEE, {**job(), "name": f"seen-{time.time_ns()}"})
    return found


def _note(what: str, figure: str) -> None:
    """A line as soon as it is known."""
    print(f"{what:60} {figure}", flush=True)


def _shown(seconds: Iterator[float]) -> str:
    took = list(seconds)
    return f"{statistics.median(took):.2f} s in the median, {max(took):.2f} s at most"


def _wait_for_rest() -> None:
    """Until all GPUs are held and no decision of the last ten seconds has changed anything."""
    while True:
        time.sleep(1.0)
        with Client.of_environment() as client:
            running = client.get("/v1/jobs", limit=1)["counts"]["running"]
            if running >= FITTING and len(client.get("/v1/usage", since=time.time() - 10.0)["points"]) == 0:
                return


def _submit() -> int:
    with Client.of_environment() as client:
        submitted: int = client.post("/v1/jobs", job())["job_id"]
    return submitted


def _after_a_change(visitor: Visitor, path: str) -> float:
    _submit()
    return visitor.fetch(path)


def _decided() -> float:
    """Seconds from a submission until a decision has given the job a reason to wait."""
    began, submitted = time.perf_counter(), _submit()
    with Client.of_environment() as client:
        while client.get(f"/v1/jobs/{submitted}")["reason"] == "not_considered":
            time.sleep(0.01)
    return time.perf_counter() - began


def _all_show(pages: list[OpenPage]) -> float:
    """Seconds until every page whose body has changed shows it."""
    time.sleep(2.0)
    began, fetched = time.perf_counter(), [page.asked for page in pages]
    _submit()
    while any(page.asked == before for page, before in zip(pages, fetched, strict=True)):
        time.sleep(0.01)
        if time.perf_counter() - began > GIVE_UP_SECONDS:
            raise RuntimeError("a page does not follow")
    return max(page.shows_at for page in pages) - began


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
