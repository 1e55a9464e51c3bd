"""The disk of the daemon's home fills up in the middle of the work, and there is room again later."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.service.home import make_home, store_url
from muster.service.store import Store

from .running import controller_process, wait_until_ended
from .test_killed import check_diaries, submitted

SIZE_MB = 12


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A home on a disk of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "muster-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_jobs_end_on_a_full_disk_and_nothing_of_it_is_lost(small: Path, tmp_path: Path) -> None:
    make_home(small)
    store = Store.open(store_url(small))
    jobs = submitted(store, tmp_path, 4)
    with controller_process(small, "fifo", 2) as process:
        select.select([], [], [], 1.0)
        fill(small)
        select.select([], [], [], 5.0)  # The first two jobs end in this time.
        assert process.poll() is None, "the controller does not survive a full disk"
        (small / "ballast").unlink()
        wait_until_ended(store, jobs, process)
    check_diaries(store, small, jobs, steps_repeated=False, diaries=tmp_path)
    store.close()


def fill(folder: Path) -> None:
    with (folder / "ballast").open("wb", buffering=0) as ballast:
        for size in (65_536, 512):
            try:
                while True:
                    ballast.write(b"x" * size)
            except OSError:
                continue
