"""A daemon learns from real processes how fast their job goes on other sizes, and a later daemon still knows it."""

from __future__ import annotations

import getpass
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen

import numpy as np
import pytest

from muster.service.home import make_home, store_url
from muster.service.learned_sizes import LearnedSizes
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import ENDED, SizeSteps, Submission

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
    if done.parent.joinpath("paused").exists():
        continue
    step += 1
    done.with_name("next").write_text(str(step))
    done.with_name("next").replace(done)
    with done.with_name("log").open("a") as log:
        print(os.environ["MUSTER_EPOCH"], gpus, step, time.time(), file=log)
    print("step", step, flush=True)
"""
"""The steps of a job, by its GPUs, for as long as the file `wanted` is there; it goes on where it was.

It makes none while the file `paused` is there. It logs each step before it reports it. It may be stopped at any moment,
also while it writes how far it is.
"""

_READING_SECONDS = 0.001
"""By which two readings of a clock by different processes differ at the most."""


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
    (tmp_path / "paused").touch()  # so that the next controller measures nothing itself
    check_against_log(store, job, tmp_path / "log")
    monkeypatch.setenv("SEEN", str(later))
    with controller_process(home, POLICY, 4) as process:
        seen = wait_for(later, 1, process)[0]
    row = store.job(job)
    store.close()
    assert row is not None
    learned, gpus = LearnedSizes(), np.array(ASKED_ABOUT)
    learned.learn(row)
    expected = learned.seconds_per_iteration(np.full(len(gpus), job), gpus, np.ones_like(gpus), "")
    assert seen == pytest.approx(expected.tolist())


def check_against_log(store: Store, job: int, log: Path) -> None:
    """What was measured in starts that have ended is what the record of their steps says, and that is true.

    How long a daemon takes to see a step is up to the machine. It sees none before the job has made it.
    """
    gpus_of: dict[int, int] = {}
    made: dict[tuple[int, float], float] = {}
    for line in log.read_text().splitlines():
        at, gpus, step, moment = line.split()
        gpus_of[int(at)], made[int(at), float(step)] = int(gpus), float(moment)
    measured = {size.gpus: size.seconds for size in steps_of(store, job)}
    noted = store.steps_done(job)
    ended = sorted(gpus_of)[:-1]
    assert [gpus_of[epoch] for epoch in ended] == [1, 2]
    for epoch in ended:
        first, *_, last = [one for one in noted if (one.epoch, one.steps) in made and one.epoch == epoch]
        steps, begun = last.steps - first.steps, made[epoch, first.steps]
        assert measured[gpus_of[epoch]] >= 0.999 * (last.time - first.time) / steps
        assert store.origin + first.time >= begun - _READING_SECONDS
        assert store.origin + last.time - begun >= steps * (0.06 + 0.24 / gpus_of[epoch]) - _READING_SECONDS


def steps_of(store: Store, job: int) -> tuple[SizeSteps, ...]:
    """The sizes of which the disk knows."""
    row = store.job(job)
    assert row is not None
    assert row.state not in ENDED, row
    return row.size_steps
