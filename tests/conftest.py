"""What every test may use: published inputs and results, from tests/data and, where it exists, MUSTER_REFERENCE."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.reference_data import unpack

# A change is judged on the same examples whenever it is judged; new ones are looked for at every desk. A busy machine
# is no reason to fail, so no example has a deadline.
settings.register_profile("desk", deadline=None)
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "desk")
if os.environ.get("CI"):
    # Numbers in those of our modules that are imported by then would be tried as well: others in each run of workers.
    pytest.MonkeyPatch().setattr(
        "hypothesis.internal.conjecture.providers.is_local_module_file", lambda _path: False
    )


# The engines' tests in several folders import it, and the first of them must find it rewritten.
pytest.register_assert_rewrite("tests.service.engines.conformance")


class _SlurmBeside(LoadScopeScheduling):
    """One worker has all tests of a real Slurm, which wait most of their time; another has all others."""

    def _split_scope(self, nodeid: str) -> str:
        return "slurm" if nodeid.startswith("tests/slurm/") else "others"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """What `--dist loadscope` means here."""
    return _SlurmBeside(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the real traces, measured profiles and inputs with known results that ship in tests/data."""
    folder = tmp_path_factory.mktemp("reference")
    unpack(folder)
    return folder


@pytest.fixture(scope="session")
def unshipped_reference() -> Path:
    """The folder of those whose licence does not let them ship; skips where it is absent."""
    folder = Path(os.environ.get("MUSTER_REFERENCE", "../shared"))
    if not (folder / "parity").is_dir():
        pytest.skip(f"reference data not found at {folder}; set MUSTER_REFERENCE to its folder")
    return folder
