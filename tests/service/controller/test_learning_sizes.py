"""A daemon learns from real processes how fast their job goes on other sizes, and a later daemon still knows it."""

from __future__ import annotations

import getpass
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import pytest

from muster.service.home import make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import SizeSteps, Submission

from .measuring_sizes import ASKED_ABOUT
from .running import GIVE_UP_SECONDS, controller_process

POLICY = f"{Path(__file__).with_name('measuring_sizes.py')}:MeasuringSizes"
SCRIPT = """
import os, sys, time
from pathlib import Path
done = Path(sys.argv[1])
gpus = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
step = int(done.read_text()) if done.exists() else 0
while done.parent.joinpath("wanted").exists():
    time.sleep(0.06 + 0.24 / gpus)
    step += 1
    done.write_text(str(step))
    print("step", step, flush=True)
"""
"""The steps of a job, by its GPUs, for as long as the file `wanted` is there; it goes on where it was."""


def wait_for(seen: Path, lines: int, process: Popen[str]) -> list[list[float]]:
    """What the scheduler has seen, once it was asked so often with anything known."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while True:
        found = seen.read_text().splitlines() if seen.exists() else []
        if len(found) >= lines:
            return [list(map(float, line.split())) for line in found]
        assert process.poll() is None, "the controller ended"
        assert time.monotonic() < deadline
        select.select([], [], [], 0.1)


@pytest.fixture
def wanted(tmp_path: Path) -> Iterator[None]:
    """Jobs outlive their controllers; this one ends with the test."""
    file = tmp_path / "wanted"
    file.touch()
    yield
    file.unlink()


@pytest.mark.usefixtures("wanted")
def test_steps_on_three_sizes_are_known_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    make_home(home)
    store = Store.open(store_url(home))
    request = JobRequest(
        name="sizes",
        command=(sys.executable, "-c", SCRIPT, str(tmp_path / "done")),
        directory="/",
        gpus=2,
        min_gpus=1,
        max_gpus=4,
        progress=r"step (?P<step>\d+)",
        stop_signal="SIGTERM",
    )
    (job,) = store.submit([Submission(getpass.getuser(), request)])
    first, later = tmp_path / "first", tmp_path / "later"
    monkeypatch.setenv("SEEN", str(first))
    with controller_process(home, POLICY, 4) as process:
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while {size.gpus for size in steps_of(store, job)} != {1, 2, 4}:
            assert process.poll() is None, "the controller ended"
            assert time.monotonic() < deadline, store.job(job)
            select.select([], [], [], 0.2)
        wait_for(first, len(first.read_text().splitlines()) + 3, process)
    measured = {size.gpus: size.seconds for size in steps_of(store, job)}
    monkeypatch.setenv("SEEN", str(later))
    with controller_process(home, POLICY, 4) as process:
        seen = dict(zip(ASKED_ABOUT, wait_for(later, 1, process)[0], strict=True))
    store.close()
    assert all(measured[gpus] >= 0.06 + 0.24 / gpus for gpus in measured)
    for gpus, seconds in measured.items():
        assert seen[gpus] == pytest.approx(seconds, rel=0.25)
    assert min(seen[2], seen[4]) * 0.99 <= seen[3] <= max(seen[2], seen[4]) * 1.01


def steps_of(store: Store, job: int) -> tuple[SizeSteps, ...]:
    """The sizes of which the disk knows."""
    row = store.job(job)
    assert row is not None
    return row.size_steps
