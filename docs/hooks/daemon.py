"""What a daemon serves to programs: the API of a daemon in a home of its own, on a free port of this machine."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from tests.service.serving import serving


@cache
def served() -> dict[str, str]:
    """The bodies of the documents that need no job, by path."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "home") as api:
        answers = {path: api.ask("GET", path) for path in ("/v1/openapi.json", "/metrics")}
    for path, answer in answers.items():
        if answer.status != 200:
            raise RuntimeError(f"GET {path}: found status {answer.status}; allowed: 200")
    return {path: answer.body.decode() for path, answer in answers.items()}
