"""What every test may use: the reference data, found by MUSTER_REFERENCE and skipped where it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

import muster

# A change is judged on the same examples whenever it is judged; new ones are looked for at every desk.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_configure() -> None:
    """Drop compiled kernels that are older than some source file.

    Numba recompiles a function when its own file changes, and not when a function that it calls does.
    """
    package = Path(muster.__file__).parent
    newest = max(source.stat().st_mtime for source in package.rglob("*.py"))
    for compiled in package.rglob("*.nb[ic]"):
        if compiled.stat().st_mtime < newest:
            compiled.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of real traces, measured profiles and inputs with known results."""
    folder = Path(os.environ.get("MUSTER_REFERENCE", "../shared"))
    if not (folder / "parity").is_dir():
        pytest.skip(f"reference data not found at {folder}; set MUSTER_REFERENCE to its folder")
    return folder
