"""Engines that can less than this machine: their nodes go away, their jobs keep the CPUs they began with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from muster.cluster import Node
from muster.cluster.ledger import NodeAllocation
from muster.service.engines import EngineCapabilities, Exit, Observed
from muster.service.engines.fake import FakeEngine
from muster.service.store.rows import State, StateRequest, Submission
from tests.service.controller.test_fake_nodes import World, a_job


class LosingEngine(FakeEngine):
    """Some of its nodes are away; of starts there it reports what it knew last, until it gives them up."""

    away: frozenset[str] = frozenset()
    given_up = False
    places: dict[tuple[int, int], str]

    def nodes(self) -> Sequence[Node]:
        return [node for node in super().nodes() if node.name not in self.away]

    def observe(self) -> Sequence[Observed]:
        return [
            replace(one, ended=Exit.LOST, since=self._clock(), message="its node is away")
            if self.given_up and one.ended is None and self.places[one.job, one.epoch] in self.away
            else one
            for one in super().observe()
        ]

    def signal(self, job: int, epoch: int, name: str) -> None:
        if self.places.get((job, epoch)) not in self.away:
            super().signal(job, epoch, name)

    def kill(self, job: int, epoch: int) -> None:
        if self.places.get((job, epoch)) not in self.away:
            super().kill(job, epoch)


class LosingWorld(World):
    engine: LosingEngine
    places: dict[tuple[int, int], str]

    def an_engine(self) -> FakeEngine:
        engine = LosingEngine(self.folder / "fake", self.cluster, self.pace, self.clock)
        engine.places = self.places = getattr(self, "places", {})
        return engine

    def turn(self, seconds: float) -> None:
        self.seconds += seconds
        self.controller.turn()
        for interval in self.store.allocation_intervals(open_only=True):
            self.places[interval.job, interval.epoch] = interval.allocation.node
        self.check()

    def on(self, node: str) -> set[int]:
        return {
            interval.job
            for interval in self.store.allocation_intervals(open_only=True)
            if interval.allocation.node == node
        }


@pytest.mark.parametrize("daemon_dies", [False, True])
def test_a_lost_node_is_off_the_books_until_it_is_back(tmp_path: Path, daemon_dies: bool) -> None:
    world = LosingWorld(tmp_path, "fifo")
    gone, other = (node.name for node in world.cluster.nodes)
    world.store.submit([Submission("ann", a_job(40)) for _ in range(4)])
    for _ in range(5):
        world.turn(1.0)
    there = world.on(gone)
    assert len(there) == len(world.on(other)) == 2
    if daemon_dies:
        world.die()
    world.engine.away = frozenset({gone})
    world.store.submit([Submission("ann", a_job(40)) for _ in range(2)])
    for _ in range(5):
        world.turn(1.0)
    assert world.status.away == {gone}
    assert world.on(gone) == there, "until the engine is sure, its starts may live and hold what they had"
    world.engine.given_up = True
    for _ in range(40):
        world.turn(4.0)
    assert world.on(gone) == set()
    assert {row.state for row in world.store.jobs()} == {State.COMPLETED}
    assert all(row.deaths == 0 for row in world.store.jobs())
    world.store.submit([Submission("ann", a_job(40)) for _ in range(4)])
    for _ in range(5):
        world.turn(1.0)
    assert world.on(gone) == set()
    world.engine.away = frozenset()
    for _ in range(5):
        world.turn(1.0)
    assert len(world.on(gone)) == 2
    assert world.status.away == frozenset()
    world.store.close()


class StiffEngine(FakeEngine):
    capabilities = EngineCapabilities(can_resize=False, runs_as_users=False)

    def resize(self, job: int, epoch: int, allocations: Sequence[NodeAllocation[str]]) -> None:
        raise AssertionError


class StiffWorld(World):
    def an_engine(self) -> FakeEngine:
        return StiffEngine(self.folder / "fake", self.cluster, self.pace, self.clock)


def starts_of_mixed_jobs(world: World) -> list[int]:
    """How often each of some jobs started that want more or fewer CPUs as others come and go."""
    models = ("resnet18", "gnmt", "alexnet", "gnmt", "resnet18", "alexnet")
    for model in models:
        world.store.submit([Submission("ann", a_job(40).model_copy(update={"model": model}))])
        world.turn(3.0)
    for _ in range(60):
        world.turn(3.0)
    rows = world.store.jobs()
    assert {row.state for row in rows} == {State.COMPLETED}
    held = [(one.job, one.epoch) for one in world.store.allocation_intervals()]
    sizes = len(held) - len(set(held))
    world.store.close()
    assert (sizes > 0) == world.engine.capabilities.can_resize, "a start had two sizes, or none was tried"
    return [row.epoch for row in rows]


@pytest.mark.parametrize("engine", [StiffWorld, World])
@pytest.mark.parametrize("scheduler", ["fifo+tune", "fifo+tune-plus"])
def test_no_job_restarts_for_other_cpus(tmp_path: Path, engine: type[World], scheduler: str) -> None:
    """Where the engine cannot resize, a job keeps what it was granted at its start; elsewhere its CPUs change."""
    assert starts_of_mixed_jobs(engine(tmp_path, scheduler)) == [1] * 6


class ForgetfulEngine(FakeEngine):
    """Loses the starts that a test names."""

    lost: frozenset[tuple[int, int]] = frozenset()

    def observe(self) -> Sequence[Observed]:
        return [
            replace(one, ended=Exit.LOST, since=self._clock()) if (one.job, one.epoch) in self.lost else one
            for one in super().observe()
        ]

    def forget(self, job: int, epoch: int) -> None:
        if (job, epoch) in self.lost:
            self.kill(job, epoch)
        super().forget(job, epoch)


class ForgetfulWorld(World):
    engine: ForgetfulEngine

    def an_engine(self) -> FakeEngine:
        return ForgetfulEngine(self.folder / "fake", self.cluster, self.pace, self.clock)

    def pause_after_a_loss(self, job: int) -> float:
        """Lose the start that runs, and return the seconds until the next one."""
        row = self.store.job(job)
        assert row is not None
        assert row.state is State.RUNNING
        self.engine.lost = frozenset({(job, row.epoch)})
        self.turn(0.5)
        lost_at = self.seconds
        while (now := self.store.job(job)) is not None and now.epoch == row.epoch:
            self.turn(0.5)
        return self.seconds - lost_at


def test_the_pause_after_losses_starts_again_after_another_end(tmp_path: Path) -> None:
    world = ForgetfulWorld(tmp_path, "fifo")
    (job,) = world.store.submit([Submission("ann", a_job(10_000))])
    world.turn(1.0)
    assert [world.pause_after_a_loss(job) for _ in range(4)] == [1, 2, 4, 8]
    world.store.request_state(job, StateRequest.HOLD)
    for _ in range(3):
        world.turn(1.0)
    world.store.request_state(job, StateRequest.RELEASE)
    world.turn(1.0)
    assert [world.pause_after_a_loss(job) for _ in range(2)] == [1, 2]
    world.store.close()
