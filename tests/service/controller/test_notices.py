"""The notice that a start gets when its size changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.service.controller.starts import cache_gb
from muster.service.home import job_folder
from muster.service.request import JobRequest
from muster.service.store.rows import Submission
from muster.training.run_folder import RunFolder, begin_start
from tests.service.controller.test_fake_nodes import World


def test_a_start_without_reports_gets_a_notice_of_its_new_size(tmp_path: Path) -> None:
    """It imports for seconds; what it was begun with is too much as soon as others come."""
    world = World(tmp_path, "las+tune-plus")
    request = JobRequest(name="job", command=("true",), directory="/", steps=10**6, model="resnet18")
    (job,) = world.store.submit([Submission("ann", request)])
    world.turn(1.0)
    run_dir = job_folder(tmp_path, job) / "run"
    begin_start(run_dir, 1)
    (before,) = world.controller.jobs.starts[job].allocations
    world.store.submit([Submission("ann", request) for _ in range(3)])
    for _ in range(30):
        world.turn(5.0)
    start = world.controller.jobs.starts[job]
    assert (start.epoch, start.joined) == (1, False)
    (here,) = start.allocations
    assert here.memory_gb < before.memory_gb, "nothing changed, so nothing was seen"
    notice = RunFolder(run_dir, 1).new_notice()
    assert notice is not None, json.dumps(sorted(path.name for path in run_dir.iterdir()))
    assert not notice.stop
    assert notice.cache_gb == pytest.approx(cache_gb(world.controller.jobs.rows[job], start.allocations))
    world.store.close()
