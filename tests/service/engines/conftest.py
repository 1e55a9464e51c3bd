from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.cgroups import find_cgroups
from muster.service.engines.local import engine as engine_module
from tests.service.engines.bench import Bench


@pytest.fixture(params=["cgroups", "no cgroups"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of keeping starts to what they have; a machine without groups is one that finds none."""
    if request.param == "no cgroups":
        monkeypatch.setattr(engine_module, "find_cgroups", lambda: (None, "as on other machines"))
    elif find_cgroups()[0] is None:
        pytest.skip(find_cgroups()[1])
    return str(request.param)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.clear()


@pytest.fixture
def open_bench() -> Iterator[Bench]:
    """In a folder through which others may go, as the daemon's home is."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp(prefix="muster-test-"))
    folder.chmod(0o711)
    bench = Bench(folder)
    yield bench
    bench.clear()
    shutil.rmtree(folder)
