"""All pictures of pages, report and terminal for the documentation: python -m tests.browser.pictures [FOLDER]."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.service.client import Client
from tests.browser.driven import DARK, PHONE, WIDE, Daemon, chromium, daemon
from tests.service.cli.daemons import Person

KINDS = (("wide", WIDE), ("phone", PHONE), ("dark", DARK))
PAGES = {
    "overview": "/",
    "nodes": "/nodes",
    "jobs": "/jobs",
    "job": "/jobs/{waiting}",
    "running": "/jobs/9#speed",
    "timeline": "/timeline",
    "users": "/users",
    "what-if": "/what-if",
}
PLACES = {"top": "#explore", "jobs": "#pair", "charts": "figure[data-chart=jct]", "nodes": "#by"}
"""Parts of a report, each by what stands at its beginning."""
_SETTLED_MS = 1_500
"""Until what a page loads by scripts is there."""
_SHORT = [{"name": f"short-{number}", "gpus": 16, "model": "alexnet", "steps": 20} for number in range(8)]
"""They complete before the pictures are taken, so that a question can be asked about them."""
_HELD_TWICE = {"name": "gnmt-breaks", "gpus": 4, "model": "gnmt", "steps": 100_000}
_JOBS = [
    {"name": f"{model}-{number}", "gpus": gpus, "model": model, "steps": 400 * number}
    for number, (model, gpus) in enumerate(
        [("resnet50", 4), ("gnmt", 8), ("bert-large", 16), ("alexnet", 2), ("resnet18", 1)] * 6, start=1
    )
]
_USERS = {"ann": "speech", "ben": "vision", "": "research"}
"""Who submits those by turns, and for which tenant; the last one is this account."""
_TERMINAL = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "34"}


def _answer_a_question(client: Client) -> None:
    while client.get("/v1/jobs:search", state="completed")["total"] < len(_SHORT):
        time.sleep(1)
    asked = client.post("/v1/what-if", {"scheduler": "las", "add_nodes": "8x8gpu,96cpu,768gb"})
    while client.get(f"/v1/what-if/{asked['number']}")["state"] == "running":
        time.sleep(1)


def _run_with_breaks(running: Daemon) -> None:
    """A job that was held twice, so that its page has several starts and their speeds."""
    (job,) = running.submit([_HELD_TWICE])
    for state, seconds, action in (("running", 15, "hold"), ("held", 3, "release")) * 2:
        with running.client() as client:
            while client.get(f"/v1/jobs/{job}")["state"] != state:
                time.sleep(0.2)
        time.sleep(seconds)
        with running.client() as client:
            client.post(f"/v1/jobs/{job}/{action}")


def _submit_by_turns(running: Daemon, jobs: Sequence[dict[str, Any]]) -> None:
    with running.client() as own, ExitStack() as stack:
        address = "http://" + urlsplit(own.post("/v1/login-codes")["url"]).netloc
        clients = {"": own}
        for user in filter(None, _USERS):
            token = own.post("/v1/tokens", {"user": user, "role": "user"})["token"]
            clients[user] = stack.enter_context(Client(address, token))
        for at, job in enumerate(jobs):
            user, tenant = list(_USERS.items())[at % len(_USERS)]
            clients[user].post("/v1/jobs", {"command": ["true"], "directory": "/", "tenant": tenant, **job})


def _own_that_waits(running: Daemon) -> int:
    """The first waiting job of this account, once the queue has settled."""
    time.sleep(5)
    with running.client() as client:
        own = client.get("/v1/whoami")["user"]
        found = client.get("/v1/jobs:search", state="queued", user=own, descending=False)["jobs"]
    job: int = found[0]["job_id"]
    return job


def _live(browser: Browser, home: Path) -> Iterator[tuple[str, bytes]]:
    """The pages and `muster top` of a daemon with fake nodes and about forty jobs."""
    with daemon(home, "--fake-nodes", "8x8gpu,96cpu,768gb") as running:
        _submit_by_turns(running, _SHORT)
        with running.client() as client:
            _answer_a_question(client)
        _run_with_breaks(running)
        _submit_by_turns(running, _JOBS)
        waiting = _own_that_waits(running)
        for kind, how in KINDS:
            with running.visited(browser, **how) as visit:
                for name, path in PAGES.items():
                    page = visit.open(path.format(waiting=waiting))
                    if name == "job":
                        page.get_by_text("It is expected to start").wait_for()
                    page.wait_for_timeout(_SETTLED_MS)
                    yield f"live-{name}-{kind}", page.screenshot()
        printed = Person().types(home, "top", "--once", **_TERMINAL)
        yield "top", _of_terminal(browser, printed.stdout)


def _of_terminal(browser: Browser, printed: str) -> bytes:
    """What a terminal shows of that, with its colours."""
    terminal = Console(record=True, width=80, file=io.StringIO())
    terminal.print(Text.from_ansi(printed))
    style = (
        "body { margin: 0; background: #14181d; color: #e6e9ed; display: inline-block; padding: 4px 18px; }"
    )
    code = '<pre style="font: 14px/1.35 DejaVu Sans Mono, monospace">{code}</pre>'
    written = terminal.export_html(theme=MONOKAI, inline_styles=True, code_format=code)
    page = browser.new_page(**WIDE)
    page.set_content(f"<style>{style}</style>{written}")
    picture: bytes = page.locator("body").screenshot()
    page.close()
    return picture


def _report(browser: Browser, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The first screen of `make demo`'s report, its other parts, and the story of the job that gained most."""
    muster = (sys.executable, "-c", "from muster.cli import main; main()")
    trace = folder / "trace.csv"
    jobs = ("--jobs", "1000", "--load", "5", "--split", "40,40,20", "--multi-gpu", "--seed", "1")
    subprocess.run([*muster, "generate", "synergy", *jobs, "-o", str(trace)], check=True)
    schedulers = ("slurm-like", "fifo", "las+proportional+consolidate", DEFAULT_SCHEDULER)
    chosen = [word for name in schedulers for word in ("--scheduler", name)]
    compare = (*muster, "compare", str(trace), "--cluster", "examples/two-racks.toml", *chosen)
    subprocess.run([*compare, "--out", str(folder / "out")], check=True)
    for kind, how in KINDS:
        page: Any = browser.new_page(**how)
        page.goto((folder / "out" / "report.html").resolve().as_uri())
        page.locator("html[data-ready]").wait_for()
        for name, place in PLACES.items():
            if name != "top":
                page.locator(place).evaluate(
                    "place => scrollTo(0, place.getBoundingClientRect().top + scrollY - 130)"
                )
                page.wait_for_timeout(300)
            yield f"report-{name}-{kind}", page.screenshot()
        page.locator("#extremes button").first.click()
        yield f"report-story-{kind}", page.screenshot()
        page.close()


def main(folder: Path) -> None:
    """Take all of them."""
    with tempfile.TemporaryDirectory() as home, chromium() as browser:
        for part in (_live(browser, Path(home, "home")), _report(browser, Path(home))):
            for name, picture in part:
                (folder / f"{name}.png").write_bytes(picture)
                print(f"wrote {name}.png, {len(picture) / 1000:.0f} kB", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
