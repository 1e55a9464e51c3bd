"""Which compiled kernels are dropped after an edit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernel_caches import drop_stale_kernels

SOURCES = {
    "pack/__init__.py": "",
    "pack/ledger.py": "X = 1\n",
    "pack/kernels/__init__.py": "",
    "pack/kernels/serve.py": "from pack.ledger import X\n",
    "pack/kernels/rank.py": "import math\n",
    "pack/top.py": "from pack.kernels import serve\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (100, 100))
        cache = path.parent / "__pycache__" / f"{path.stem}.work-3.py311.nbi"
        cache.parent.mkdir(exist_ok=True)
        cache.write_text("compiled")
        os.utime(cache, (200, 200))
    return tmp_path / "pack"


def _left(package: Path) -> set[str]:
    return {cache.name.partition(".")[0] for cache in package.rglob("*.nbi")} - {"__init__"}


@pytest.mark.parametrize(
    ("edited", "left"),
    [
        ("ledger.py", {"rank"}),
        ("kernels/serve.py", {"ledger", "rank"}),
        ("kernels/rank.py", {"ledger", "serve", "top"}),
        ("top.py", {"ledger", "serve", "rank"}),
    ],
)
def test_an_edit_drops_the_kernels_that_depend_on_it(package: Path, edited: str, left: set[str]) -> None:
    os.utime(package / edited, (300, 300))
    drop_stale_kernels(package)
    assert _left(package) == left


def test_nothing_is_dropped_without_an_edit(package: Path) -> None:
    drop_stale_kernels(package)
    assert _left(package) == {"ledger", "serve", "rank", "top"}


def test_a_cache_whose_source_is_gone_is_dropped(package: Path) -> None:
    (package / "top.py").unlink()
    os.utime(package / "kernels/rank.py", (300, 300))
    drop_stale_kernels(package)
    assert _left(package) == {"ledger", "serve"}
