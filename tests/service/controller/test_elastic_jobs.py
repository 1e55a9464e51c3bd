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
from muster.service.start_intervals import QueueEstimate
from muster.service.start_question import SeenQueue
from muster.service.store.rows import Caller, JobRow, SizeSteps, StateRequest, Submission
from muster.service.waiting import ClosedNodes
from muster.service.why import waits, why_not_waiting, why_waiting
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

    def why(self, job: int) -> list[str]:
        row, asker = self.row(job), Caller("ann", operator=True)
        if not waits(row):
            return why_not_waiting(row, self.store, self.status, asker).sentences
        seen = SeenQueue(self.seconds, self.store.living(), [], self.store.held_now(), ClosedNodes())
        return why_waiting(row, QueueEstimate(seen), self.status, asker, self.seconds).sentences

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


def test_why_knows_that_a_script_cannot_change_its_size(tmp_path: Path) -> None:
    """While it runs, while it waits, and on a cluster that is too small for it from now on."""
    world = ElasticWorld(tmp_path, "1x4gpu,16cpu,64gb")
    job = world.submit(gpus=2, min_gpus=1, max_gpus=4, steps=20_000, ranks="per-gpu")
    world.turns(3)
    world.report(job, elastic=False)
    world.turns(3)
    assert "It has 4 GPUs because its script cannot change its size." in world.why(job)
    world.store.request_state(job, StateRequest.HOLD)
    world.turns(40)
    world.submit(gpus=4, steps=20_000, preemptible=False)
    world.turns(3)
    world.store.request_state(job, StateRequest.RELEASE)
    world.turns(3)
    waiting = " ".join(world.why(job))
    assert waiting.startswith(f"Job {job} (job, 4 GPUs) has waited")
    assert "It needs 4 GPUs and 0 are free. It keeps 4 GPUs: its script cannot change its size." in waiting
    world.chosen = parse_cluster("1x2gpu,16cpu,64gb")
    world.die()
    world.turns(3)
    assert world.row(job).reason == "fits_nowhere"
    assert "As to its gpus (4): cluster 1x2gpu,16cpu,64gb has 2 GPUs; ask for at most so many." in world.why(
        job
    )
    world.store.close()


def test_why_goes_by_the_steps_of_all_jobs_of_one_model(tmp_path: Path) -> None:
    """The first one has shown that more GPUs do not help; the second one has run on one size only."""
    world = ElasticWorld(tmp_path, "1x4gpu,16cpu,64gb")
    sizes = {"gpus": 2, "min_gpus": 1, "max_gpus": 8, "steps": 20_000, "model": "of-their-own"}
    first = world.submit(**sizes)
    world.turns(2)
    flat = (SizeSteps(1, 1, 1.0), SizeSteps(1, 2, 1.0), SizeSteps(1, 4, 1.0))
    world.controller.jobs.set(first, size_steps=flat)
    world.store.request_state(first, StateRequest.HOLD)
    world.turns(40)
    second = world.submit(**sizes)
    world.turns(2)
    assert any(line.endswith("with one more like these it would be no faster.") for line in world.why(second))
    world.store.close()
