"""One browser and one busy daemon for the tests of a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from playwright.sync_api import Browser

from tests.browser.driven import Daemon, chromium, daemon

MANY = 10_000
MODELS = ("resnet50", "gnmt", "alexnet", "bert-large")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def busy() -> Iterator[Daemon]:
    """Fake nodes, full of jobs that never end by themselves, and thousands that wait."""
    with (
        tempfile.TemporaryDirectory() as home,
        daemon(Path(home), "--fake-nodes", "16x8gpu,96cpu,768gb") as it,
    ):
        it.submit(
            [
                {
                    "name": f"train-{number}",
                    "gpus": 1 + number % 8,
                    "model": MODELS[number % 4],
                    "steps": 10**9,
                }
                for number in range(MANY)
            ]
        )
        yield it
