"""An API on a port of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ..serving import Serving, serving


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path / "home") as running:
        yield running
