"""An engine that gives a gang the same amounts on each of its nodes: all that runs is so, and all jobs come to run."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.cluster.ledger import NodeAllocation
from muster.problems import InputError
from muster.schedulers.presets import DEFAULT_SCHEDULER
from muster.service.engines.fake import FakeEngine, Pace, pace_of
from muster.service.fitting import misfits
from muster.service.honoured import check_scheduler
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.store.rows import State, Submission
from tests.building import cluster_of
from tests.service.controller.test_fake_nodes import MODELS, NAMES, World


class EvenEngine(FakeEngine):
    capabilities = replace(FakeEngine.capabilities, same_amounts_on_each_node=True)


class EvenWorld(World):
    def an_engine(self) -> FakeEngine:
        self.cluster = cluster_of(4, 4, 3, 3)
        return EvenEngine(self.folder / "fake", self.cluster, self.pace_of, self.clock)

    def pace_of(self, job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
        row = self.store.job(job)
        assert row is not None
        return pace_of(row, allocations, MODELS, self.cluster)

    def check(self) -> None:
        super().check()
        held: dict[tuple[int, float], list[NodeAllocation[str]]] = defaultdict(list)
        for interval in self.store.allocation_intervals():
            held[interval.job, interval.since].append(interval.allocation)
        for parts in held.values():
            assert len({(len(one.gpu_ids), one.cpus, one.memory_gb) for one in parts}) == 1, parts

    def completes(self, count: int) -> None:
        """Let so many jobs run to their ends."""
        for _ in range(400):
            self.turn(25.0)
            if not self.store.living():
                break
        assert [row.state for row in self.store.jobs()] == [State.COMPLETED] * count
        self.store.close()


JOB = st.fixed_dictionaries(
    {"gpus": st.integers(1, 14), "model": st.sampled_from(NAMES), "steps": st.integers(1, 400)}
)


@pytest.mark.parametrize(
    "scheduler", ["fifo", "las+tune-plus", "srtf+tune", "fifo+greedy", "fifo+joint", "las+joint"]
)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(jobs=st.lists(JOB, min_size=1, max_size=12))
def test_gangs_are_even_and_all_jobs_end(scheduler: str, jobs: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = EvenWorld(Path(folder), scheduler)
        requests = [JobRequest(name="job", command=("true",), directory="/", **one) for one in jobs]
        possible = [one for one in requests if not list(misfits(one, world.cluster, even_gangs=True))]
        for at, request in enumerate(possible):
            world.store.submit([Submission("ann", request)])
            world.turn(20.0)
            if at % 4 == 3:
                world.die()
        world.completes(len(possible))


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(bounds=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 10)), min_size=1, max_size=6))
def test_gangs_of_any_size_are_even(bounds: list[tuple[int, int]]) -> None:
    """Jobs with one to 14 GPUs; nine are even on three nodes, eleven never are."""
    with tempfile.TemporaryDirectory() as folder:
        world = EvenWorld(Path(folder), "las+joint")
        for least, more in bounds:
            request = JobRequest(
                name="job",
                command=("true",),
                directory="/",
                gpus=least,
                min_gpus=least,
                max_gpus=least + more,
                steps=300,
            )
            world.store.submit([Submission("ann", request)])
            world.turn(20.0)
        world.completes(len(bounds))


def test_a_scheduler_that_plans_uneven_gangs_is_refused() -> None:
    check_scheduler(live_scheduler("dally", {}, 60.0), "local", even_gangs=False)
    check_scheduler(live_scheduler(DEFAULT_SCHEDULER, {}, 60.0), "slurm", even_gangs=True)
    with pytest.raises(InputError, match=rf"--scheduler: found 'dally'; .*{re.escape(DEFAULT_SCHEDULER)}"):
        check_scheduler(live_scheduler("dally", {}, 60.0), "slurm", even_gangs=True)
