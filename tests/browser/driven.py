"""The distribution's Chromium, driven at the pages of a real daemon."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from muster.service.client import Client
from muster.service.home import socket_path
from muster.service.unix_socket import SCHEME
from tests.service.cli.daemons import Person

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
WIDE: Any = {"viewport": {"width": 1360, "height": 850}}
PHONE: Any = {"viewport": {"width": 390, "height": 800}, "has_touch": True}
DARK: Any = WIDE | {"color_scheme": "dark"}
expect.set_options(timeout=60_000)
_AXE = "https://registry.npmjs.org/axe-core/-/axe-core-4.11.0.tgz"
_AXE_SHA512 = (
    "8a561a9c453cbf1c417b1a4977c716338125490ab841cb422ca8a1d1349f8c87"
    "c24137b21ffeb356b98825f2cfaca4ca2516e21be71f9d96d02230252661758d"
)
_BUILD = Path(__file__).parents[2] / "build" / "browser"


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; skips where there is none."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with sync_playwright() as playwright:
        # Its own sandbox needs an account that is not root.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def axe_script() -> str:
    """The accessibility checker; downloaded once, checked, and skipped where the registry is not reached."""
    kept = _BUILD / "axe.min.js"
    if not kept.exists():
        try:
            with urllib.request.urlopen(_AXE, timeout=60) as answer:
                archive: bytes = answer.read()
        except (urllib.error.URLError, OSError) as error:
            pytest.skip(f"axe-core cannot be downloaded: {error}")
        assert hashlib.sha512(archive).hexdigest() == _AXE_SHA512
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            script = tar.extractfile("package/axe.min.js")
            assert script is not None
            _BUILD.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(script.read())
    return kept.read_text()


@dataclass
class Visit:
    """A person's window on the pages: what its console said, and where it sent requests."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def open(self, path: str) -> Page:
        """Open a page and wait until its scripts run."""
        self.page.goto(self.url + path)
        self.page.get_by_role("status").filter(has_text="live").wait_for()
        return self.page


@dataclass(frozen=True)
class Daemon:
    """A running daemon."""

    home: Path

    def client(self) -> Client:
        """A client of this account."""
        return Client(f"{SCHEME}{socket_path(self.home)}")

    def submit(self, jobs: Sequence[dict[str, Any]]) -> list[int]:
        """Submit jobs."""
        made = [{"command": ["true"], "directory": "/"} | job for job in jobs]
        with self.client() as client:
            found: list[int] = client.post("/v1/jobs:batch", {"jobs": made})["job_ids"]
        return found

    @contextmanager
    def visited(self, browser: Browser, **how: Any) -> Iterator[Visit]:
        """A window in which this account is logged in; at its end nothing may have been complained about."""
        with self.client() as client:
            made = client.post("/v1/login-codes")
        context: BrowserContext = browser.new_context(**(how or WIDE))
        context.set_default_timeout(60_000)
        visit = Visit(context.new_page(), made["url"])
        visit.page.on(
            "console",
            lambda line: visit.complaints.append(line.text) if line.type in ("error", "warning") else None,
        )
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.on("request", lambda request: visit.hosts.add(urlsplit(request.url).netloc))
        try:
            visit.page.goto(f"{visit.url}/login#{made['code']}")
            visit.page.get_by_role("heading", name="GPUs held;").wait_for()
            yield visit
        finally:
            context.close()


@contextmanager
def daemon(home: Path, *flags: str) -> Iterator[Daemon]:
    """A daemon until the end of the body."""
    with Person().serves(home, *flags):
        yield Daemon(home)
