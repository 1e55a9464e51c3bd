"""What every test may use: the reference data, found by MUSTER_REFERENCE and skipped where it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A change is judged on the same examples whenever it is judged; new ones are looked for at every desk. A busy machine
# is no reason to fail, so no example has a deadline.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


@pytest.fixture(scope="session")
def reference() -> Path:
    """The folder of real traces, measured profiles and inputs with known results."""
    folder = Path(os.environ.get("MUSTER_REFERENCE", "../shared"))
    if not (folder / "parity").is_dir():
        pytest.skip(f"reference data not found at {folder}; set MUSTER_REFERENCE to its folder")
    return folder
