"""An engine that refuses now and then, or loses a start, and daemons that are killed before, in and after an act."""

from __future__ import annotations

import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.cluster.ledger import NodeAllocation
from muster.service.engines import Launch, Observed
from muster.service.engines.fake import FakeEngine

from .test_fake_nodes import ACT, CLUSTER, World, live_through


class Killed(BaseException):
    """The daemon is no more."""


class FlakyEngine(FakeEngine):
    """What it has agreed to is what starts really have."""

    world: FlakyWorld

    def launch(self, launch: Launch) -> None:
        def begin() -> None:
            super(FlakyEngine, self).launch(launch)
            # Each start has what it was launched with first, whatever is said later.
            self.world.given.setdefault((launch.job, launch.epoch), launch.allocations)

        self._do(begin)

    def resize(self, job: int, epoch: int, allocations: Sequence[NodeAllocation[str]]) -> None:
        def change() -> None:
            super(FlakyEngine, self).resize(job, epoch, allocations)
            self.world.given[job, epoch] = tuple(allocations)

        self._do(change)

    def signal(self, job: int, epoch: int, name: str) -> None:
        self._do(lambda: super(FlakyEngine, self).signal(job, epoch, name))

    def kill(self, job: int, epoch: int) -> None:
        self._do(lambda: super(FlakyEngine, self).kill(job, epoch))

    def forget(self, job: int, epoch: int) -> None:
        self._do(lambda: super(FlakyEngine, self).forget(job, epoch))

    def observe(self) -> Sequence[Observed]:
        if self.world.happens(0.05):
            raise OSError("not now")
        for key in list(self._runs):
            if self.world.happens(0.01):
                del self._runs[key], self._observed[key]
                self._append({"forget": key})  # What is lost is not there for the next daemon either.
        return super().observe()

    def _do(self, act: Callable[[], None]) -> None:
        if self.world.happens(0.2):
            raise OSError("not now")
        if self.world.happens(0.05):
            raise Killed
        act()
        if self.world.happens(0.05):
            raise Killed


class FlakyWorld(World):
    """A new daemon takes over whenever it is killed in the middle of a turn."""

    def __init__(self, folder: Path, scheduler: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.given: dict[tuple[int, int], tuple[NodeAllocation[str], ...]] = {}
        self.flaky = True
        super().__init__(folder, scheduler)

    def an_engine(self) -> FakeEngine:
        engine = FlakyEngine(self.folder / "fake", self.cluster, self.pace, self.clock)
        engine.world = self
        return engine

    def happens(self, probability: float) -> bool:
        return self.flaky and self.chance.random() < probability

    def turn(self, seconds: float) -> None:
        self.flaky = seconds < 25.0  # In the end all is well.
        self.seconds += seconds
        try:
            well = self.controller.turn()
        except Killed:
            self.die()
            return
        if well:
            self.check()
        self.check_machines()

    def check_machines(self) -> None:
        """Nothing is really given twice, whatever the books say; no job runs twice."""
        gpus: Counter[tuple[str, int]] = Counter()
        cpus: dict[str, float] = defaultdict(float)
        running = [key for key, run in self.engine._runs.items() if run.end > self.clock()]
        assert len({job for job, _ in running}) == len(running)
        for key in running:
            for here in self.given[key]:
                cpus[here.node] += here.cpus
                for gpu in here.gpu_ids:
                    gpus[here.node, gpu] += here.milli
        assert all(milli <= 1000 for milli in gpus.values())
        if all(start.applied is not None for start in self.controller.jobs.starts.values()):
            most = {node.name: node.cpus for node in CLUSTER.nodes}
            assert all(amount <= most[node] + 1e-6 for node, amount in cpus.items())


@pytest.mark.parametrize("scheduler", ["fifo", "las+tune-plus", "srtf+tune"])
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts=st.lists(ACT, max_size=25), seed=st.integers(0, 2**32))
def test_every_job_comes_to_its_end_whatever_fails(
    scheduler: str, acts: list[tuple[str, object]], seed: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live_through(FlakyWorld(Path(folder), scheduler, seed), acts)
