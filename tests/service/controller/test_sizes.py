"""Real training on sizes that change: the ranks of each start, and the bits of a run with one size."""

from __future__ import annotations

import getpass
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.service.home import job_folder, make_home, store_url
from muster.service.request import JobRequest
from muster.service.store import Store
from muster.service.store.rows import JobRow, State, Submission

from ...training.starting import HERE
from .running import controller_process, wait_until_ended

pytestmark = pytest.mark.needs_torch
pytest.importorskip("torch")

from ...training.elastic_job import Work, learn  # noqa: E402
from ...training.forked import run_ranks  # noqa: E402

POLICY = f"{Path(__file__).with_name('cycling_sizes.py')}:CyclingSizes"


def ran(home: Path, *flags: str, **fields: Any) -> tuple[JobRow, list[int], list[str], str]:
    """A job under the scheduler that cycles: its row, GPUs of its starts, its history, and what it printed."""
    make_home(home)
    store = Store.open(store_url(home))
    request = JobRequest(
        name="sizes",
        command=(sys.executable, str(HERE / "elastic_job.py"), *flags),
        directory="/",
        environment={"PATH": os.environ["PATH"], "PYTHONPATH": str(HERE.parents[1])},
        ranks="per-gpu",
        checkpoint_seconds=1000.0,
        **fields,
    )
    (job,) = store.submit([Submission(getpass.getuser(), request)])
    with controller_process(home, POLICY, 4) as process:
        wait_until_ended(store, [job], process)
    row = store.job(job)
    assert row is not None
    output = (job_folder(home, job) / "output" / "0.log").read_text()
    sizes = {held.epoch: len(held.allocation.gpu_ids) for held in store.allocation_intervals()}
    events = [event.kind for event in store.events(job)]
    store.close()
    return row, [sizes[epoch] for epoch in sorted(sizes)], events, output


def test_a_job_changes_size_and_ends_with_the_bits_of_one(tmp_path: Path) -> None:
    row, sizes, _, output = ran(tmp_path, "--stopped-in", "3", gpus=1, min_gpus=1, max_gpus=4)
    assert row.state is State.COMPLETED, (row, output)
    assert sizes == [1, 2, 4, 3]
    assert (row.preemptions, row.moves) == (1, 2)
    ranks, bits, seen = output.splitlines()[-1].split(" ", 2)
    ((status, whole),) = run_ranks(1, learn, Work(2, None, elastic=False))
    assert status == 0
    assert (int(ranks), bits, json.loads(seen)) == (3, *whole)


def test_a_script_that_is_not_elastic_keeps_its_first_size(tmp_path: Path) -> None:
    """Its owner allows other sizes: the scheduler keeps to what the script can do."""
    row, sizes, events, output = ran(tmp_path, "--rigid", "--stopped-in", "1", gpus=2, min_gpus=1, max_gpus=4)
    assert row.state is State.COMPLETED, (row, output)
    assert sizes == [1, 1]
    assert row.fixed_gpus == 1
    assert events.count("cannot change its size") == 1


def test_bounds_hold_whatever_the_scheduler_would_like(tmp_path: Path) -> None:
    row, sizes, _, output = ran(tmp_path, "--stopped-in", "1", gpus=2, min_gpus=2, max_gpus=3)
    assert row.state is State.COMPLETED, (row, output)
    assert sizes == [2, 3]
