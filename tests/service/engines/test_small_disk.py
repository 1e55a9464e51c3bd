"""A disk without room: what was begun goes on and its end is reported; what cannot be begun leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.launcher.lease import Lease, now, write_lease
from muster.service.engines import Exit
from tests.service.engines.bench import Bench, python, shell
from tests.service.engines.test_starts import TRAPPED, WAITING

MEGABYTE = 2**20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of a megabyte for the engine's folder."""
    disk = tmp_path / "engine"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTE}", "muster-test", disk], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user may mount no small disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        for size in (4096, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                continue
    assert os.statvfs(disk).f_bavail == 0


def test_a_lease_is_renewed_on_a_full_disk(small: Path) -> None:
    path = small / "lease"
    write_lease(path, now() + 100, now() + 200)
    fill(small)
    write_lease(path, now() - 1, now() + 9e9)
    lease = Lease(str(path))
    assert (lease.is_ending, lease.is_over) == (True, False)
    assert sorted(one.name for one in small.iterdir()) == ["ballast", "lease"]


def test_full_disk(small: Path, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.launch(1, 1, python(TRAPPED.format(signal="SIGTERM", status=75) + WAITING), ranks=2)
    bench.launch(2, 1, shell("while [ ! -e go ]; do :; done; exit 3"))
    bench.launch(3, 1, ["sleep", "600"])
    for rank in (0, 1):
        bench.says("up", 1, rank)
    bench.supervisor(3, 1)
    fill(small)
    with pytest.raises(OSError, match="No space left"):
        bench.launch(4, 1, ["true"])
    assert sorted(path.name for path in small.iterdir()) == ["1.1", "2.1", "3.1", "ballast"]
    bench.reopen()
    assert [one.job for one in bench.engine.observe() if one.ended is None] == [1, 2, 3]
    bench.engine.resize(3, 1, [bench.allocation(cpus=1.0, memory_gb=1.0)])
    bench.engine.signal(1, 1, "SIGTERM")
    bench.engine.kill(3, 1)
    (tmp_path / "go").touch()
    ends = [bench.end(job, 1) for job in (1, 2, 3)]
    assert [(end.ended, end.status) for end in ends] == [
        (Exit.STOPPED, 75),
        (Exit.FAILED, 3),
        (Exit.STOPPED, -9),
    ]
    assert bench.reopen().observe() == ends
    bench.engine.forget(1, 1)
    (small / "ballast").unlink()
    bench.launch(4, 1, ["true"])
    assert bench.end(4, 1).ended is Exit.COMPLETED
    bench.clear()
