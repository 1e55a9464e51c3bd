"""Pictures of all pages for the documentation: python -m tests.browser.pictures [FOLDER]."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from muster.service.client import Client
from tests.browser.driven import DARK, PHONE, WIDE, Daemon, chromium, daemon

PAGES = {
    "overview": "/",
    "nodes": "/nodes",
    "jobs": "/jobs",
    "job": "/jobs/12",
    "running": "/jobs/9#speed",
    "timeline": "/timeline",
    "what-if": "/what-if",
}
_SETTLED_MS = 1_500
"""Until what a page loads by scripts is there."""
_JOBS = [
    {"name": f"{model}-{number}", "gpus": gpus, "model": model, "steps": 400 * number}
    for number, (model, gpus) in enumerate(
        [("resnet50", 4), ("gnmt", 8), ("bert-large", 16), ("alexnet", 2), ("resnet18", 1)] * 6, start=1
    )
]


_SHORT = [{"name": f"short-{number}", "gpus": 16, "model": "alexnet", "steps": 20} for number in range(8)]
"""They complete before the pictures are taken, so that a question can be asked about them."""
_HELD_TWICE = {"name": "gnmt-breaks", "gpus": 4, "model": "gnmt", "steps": 100_000}


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


def main(folder: Path) -> None:
    """Take the pictures of a daemon with fake nodes and thirty jobs."""
    nodes = ("--fake-nodes", "8x8gpu,96cpu,768gb")
    with tempfile.TemporaryDirectory() as home, daemon(Path(home), *nodes) as running, chromium() as browser:
        running.submit(_SHORT)
        with running.client() as client:
            _answer_a_question(client)
        _run_with_breaks(running)
        running.submit(_JOBS)
        for kind, how in (("wide", WIDE), ("phone", PHONE), ("dark", DARK)):
            with running.visited(browser, **how) as visit:
                for name, path in PAGES.items():
                    page = visit.open(path)
                    if name == "job":
                        page.get_by_text("It is expected to start").wait_for()
                    page.wait_for_timeout(_SETTLED_MS)
                    page.screenshot(path=folder / f"live-{name}-{kind}.png")
                    print(f"wrote live-{name}-{kind}.png", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
