"""The controller with elastic jobs, over nodes without processes: which sizes they get, and when they start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muster.cluster.shipped import parse_cluster
from muster.service.home import job_folder
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow, Submission
from muster.training.run_folder import progress_file

from .test_fake_nodes import World


class ElasticWorld(World):
    """Fake nodes of a cluster, with jobs of which the number of GPUs may be another one."""

    def __init__(self, folder: Path, cluster: str, scheduler: str = "gittins+joint", **settings: str) -> None:
        self.chosen = parse_cluster(cluster)
        super().__init__(folder, live_scheduler(scheduler, settings, 20.0))

    def begin(self) -> None:
        self.cluster = self.chosen
        super().begin()

    def submit(self, **fields: Any) -> int:
        request = JobRequest(name="job", command=("true",), directory="/", **fields)
        return self.store.submit([Submission("ann", request)])[0]

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn(1.0)

    def report(self, job: int, *, elastic: bool) -> None:
        """As a script that uses `run.steps` does."""
        row = self.row(job)
        folder = job_folder(self.folder, job) / "run"
        folder.mkdir(parents=True, exist_ok=True)
        made = {
            "epoch": row.epoch,
            "state": "running",
            "step": 5,
            "steps_per_second": 1.0,
            "elastic": elastic,
        }
        progress_file(folder, row.epoch).write_text(json.dumps(made))

    def row(self, job: int) -> JobRow:
        row = self.store.job(job)
        assert row is not None
        return row

    def gpus(self, job: int) -> int:
        return sum(
            len(one.allocation.gpu_ids) for one in self.store.allocation_intervals(job, open_only=True)
        )


@pytest.mark.parametrize(
    ("cluster", "ranks", "elastic", "grown"),
    [
        ("2x4gpu,16cpu,64gb", "one", False, 4),
        ("2x4gpu,16cpu,64gb", "per-gpu", False, 4),
        ("2x4gpu,16cpu,64gb", "one", True, 8),
        ("1x8gpu,16cpu,64gb", "one", False, 8),
        ("1x8gpu,16cpu,64gb", "per-gpu", False, 4),
    ],
)
def test_a_script_that_keeps_its_ranks_keeps_its_gpus(
    tmp_path: Path, cluster: str, ranks: str, elastic: bool, grown: int
) -> None:
    """Where another size may come with another number of processes: each node has one, or each GPU."""
    world = ElasticWorld(tmp_path, cluster)
    world.submit(gpus=4, steps=60, preemptible=False)
    world.turns(2)
    job = world.submit(gpus=4, min_gpus=1, max_gpus=8, steps=20_000, ranks=ranks)
    world.turns(3)
    assert world.gpus(job) == 4
    world.report(job, elastic=elastic)
    world.turns(400)
    assert world.gpus(job) == grown
    fixed = [event.kind for event in world.store.events(job)].count("cannot change its size")
    assert fixed == (grown == 4)
    world.store.close()


@pytest.mark.parametrize("order", ["gittins", "las", "fifo"])
def test_a_tenants_limit_holds_while_its_jobs_save(tmp_path: Path, order: str) -> None:
    """The second job has a free node, but its tenant's limit is used up until the first one has given GPUs back."""
    cluster = "1x4v100,16cpu,64gb+1x4a100,16cpu,64gb"
    world = ElasticWorld(tmp_path, cluster, f"quota+{order}+joint", limits="vision:4")
    sizes = {"gpus": 2, "min_gpus": 1, "max_gpus": 4, "grace_seconds": 60.0, "tenant": "vision"}
    first = world.submit(**sizes, steps=20_000, constraint="gpu_type=v100")
    world.turns(400)
    assert world.gpus(first) == 4
    stop, late = world.engine.signal, []
    world.engine.signal = lambda *start: late.append(start)  # type: ignore[method-assign]
    second = world.submit(**sizes, steps=2_000, constraint="gpu_type=a100")
    other = world.submit(gpus=1, steps=2_000, constraint="gpu_type=a100")
    world.turns(20)
    assert late, "the first job is to shrink"
    assert [world.gpus(job) for job in (first, second, other)] == [4, 0, 1]
    for start in late:
        stop(*start)
    world.turns(5)
    assert world.gpus(first) < 4
    assert world.gpus(second)
    assert world.gpus(first) + world.gpus(second) <= 4
    world.store.close()
