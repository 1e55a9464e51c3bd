"""Real training under three schedulers: preempted jobs end with the very bits of an uninterrupted run."""

from __future__ import annotations

import getpass
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster.service.home import job_folder, make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import State, Submission

from .running import GIVE_UP_SECONDS, conducting, wait_until_ended

pytestmark = pytest.mark.needs_torch
EXAMPLE = Path(__file__).parents[3] / "examples" / "train_images.py"
JOBS, GPUS = 12, 2
SAMPLES = (960, 1440, 1920)
BATCH, EPOCHS = 32, 2


def arguments(number: int) -> tuple[str, ...]:
    """Of job `number`; every third one is alike."""
    samples = str(SAMPLES[number % len(SAMPLES)])
    return (str(EXAMPLE), "--samples", samples, "--epochs", str(EPOCHS), "--workers", "1")


@pytest.fixture(scope="module")
def undisturbed() -> list[str]:
    """The last line, with the final loss, of each kind of job run alone and without Muster."""
    ends = []
    for number in range(len(SAMPLES)):
        command = [sys.executable, *arguments(number)]
        alone = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        environment = alone | {"OMP_NUM_THREADS": "1"}
        told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        ends.append(told.stdout.splitlines()[-1])
    return ends


@pytest.mark.parametrize(
    ("scheduler", "preempts"), [("fifo+tune-plus", False), ("srtf+tune-plus", None), ("las+tune-plus", True)]
)
def test_every_job_ends_with_the_loss_of_an_uninterrupted_run(
    tmp_path: Path, undisturbed: list[str], scheduler: str, preempts: bool | None
) -> None:
    make_home(tmp_path)
    store = Store.open(store_url(tmp_path))
    requests = [
        JobRequest(
            name=f"images-{number}",
            command=(sys.executable, *arguments(number)),
            directory=str(EXAMPLE.parent),
            environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(EXAMPLE.parents[1])},
            model="resnet18" if number % 2 else None,
            steps=SAMPLES[number % len(SAMPLES)] * EPOCHS // BATCH,
            min_runtime_seconds=1.0,
            checkpoint_seconds=5.0,
        )
        for number in range(JOBS)
    ]
    # The longest come first, so that shorter ones have somebody to take the place of.
    requests.sort(key=lambda request: -(request.steps or 0))
    with conducting(tmp_path, scheduler, GPUS, turn=20.0) as process:
        jobs = [submit(store, request) for request in requests[:GPUS]]
        wait_until_each_learns(tmp_path, jobs)
        jobs += [submit(store, request) for request in requests[GPUS:]]
        wait_until_ended(store, jobs, process)
    rows = [row for job in jobs if (row := store.job(job))]
    for row in rows:
        output = (job_folder(tmp_path, row.id) / "output" / "0.log").read_text()
        assert row.state is State.COMPLETED, (row, output)
        kind = int(row.request.name.split("-")[1]) % len(SAMPLES)
        assert output.splitlines()[-1] == undisturbed[kind]
    # Whether srtf preempts hangs on how fast the first ones turn out to be here.
    assert preempts is None or (sum(row.preemptions for row in rows) > 0) == preempts
    store.close()


def submit(store: Store, request: JobRequest) -> int:
    return store.submit([Submission(getpass.getuser(), request)])[0]


def wait_until_each_learns(home: Path, jobs: list[int]) -> None:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not all((job_folder(home, job) / "run" / "progress.json").exists() for job in jobs):
        assert time.monotonic() < deadline
        select.select([], [], [], 0.1)
