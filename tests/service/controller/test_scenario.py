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

from .restless import RESTLESS
from .running import GIVE_UP_SECONDS, controller_process, wait_until_ended

pytestmark = pytest.mark.needs_torch
EXAMPLE = Path(__file__).parents[3] / "examples" / "train_images.py"
GPUS = 2
WAVES = ((2, 1920), (4, 1440), (6, 960))
"""Jobs, and samples of each; a wave comes once two jobs of the one before it learn, so that it finds them at work."""
BATCH, EPOCHS = 32, 2
TURN_SECONDS = 60.0
"""Some times what a start takes on a busy machine."""


def arguments(samples: int) -> tuple[str, ...]:
    """Of a job with so many samples."""
    return (str(EXAMPLE), "--samples", str(samples), "--epochs", str(EPOCHS), "--workers", "1")


@pytest.fixture(scope="module")
def undisturbed() -> dict[int, str]:
    """The last line, with the final loss, of each kind of job run without Muster, by its samples."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    environment = alone | {"OMP_NUM_THREADS": "1"}
    runs = {
        samples: subprocess.Popen(
            [sys.executable, *arguments(samples)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _, samples in WAVES
    }
    reply = {samples: run.communicate()[0] for samples, run in runs.items()}
    assert not any(run.returncode for run in runs.values())
    return {samples: text.splitlines()[-1] for samples, text in reply.items()}


@pytest.mark.parametrize(
    ("scheduler", "preempts"), [("fifo+tune-plus", 0), ("srtf+tune-plus", None), (RESTLESS, 4)]
)
def test_every_job_ends_with_the_loss_of_an_uninterrupted_run(
    tmp_path: Path, undisturbed: dict[int, str], scheduler: str, preempts: int | None
) -> None:
    make_home(tmp_path)
    store = Store.open(store_url(tmp_path))
    kinds: dict[int, int] = {}
    with controller_process(tmp_path, scheduler, GPUS, turn=TURN_SECONDS) as process:
        for count, samples in WAVES:
            requests = [a_job(samples, number) for number in range(count)]
            wave = store.submit([Submission(getpass.getuser(), request) for request in requests])
            kinds |= dict.fromkeys(wave, samples)
            wait_until_some_learn(tmp_path, wave)
        wait_until_ended(store, list(kinds), process)
    rows = [row for job in kinds if (row := store.job(job))]
    for row in rows:
        output = (job_folder(tmp_path, row.id) / "output" / "0.log").read_text()
        assert row.state is State.COMPLETED, (row, output)
        assert output.splitlines()[-1] == undisturbed[kinds[row.id]]
        assert row.steps_done == row.request.steps
    # Without protection each wave takes the places of two of the wave before it. Whether srtf preempts depends on how
    # fast the first ones turn out to be here.
    preempted = sum(row.preemptions > 0 for row in rows)
    assert preempts is None or (preempted >= preempts and bool(preempted) == bool(preempts))
    store.close()


def a_job(samples: int, number: int) -> JobRequest:
    return JobRequest(
        name=f"images-{samples}-{number}",
        command=(sys.executable, *arguments(samples)),
        directory=str(EXAMPLE.parent),
        environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(EXAMPLE.parents[1])},
        model="resnet18" if number % 2 else None,
        steps=samples * EPOCHS // BATCH,
        checkpoint_seconds=5.0,
    )


def wait_until_some_learn(home: Path, jobs: list[int]) -> None:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while sum(bool(list((job_folder(home, job) / "run").glob("progress-*.json"))) for job in jobs) < GPUS:
        assert time.monotonic() < deadline
        select.select([], [], [], 0.1)
