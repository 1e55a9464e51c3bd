"""What an engine decides itself: which GPUs of a node a start gets, and when it gets what the plan found free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from muster.cluster.ledger import NodeAllocation
from muster.service.engines import EngineCapabilities, EngineView, Launch, Observed, StartRefused
from muster.service.engines.fake import FakeEngine
from muster.service.store.rows import Phase, State, StateRequest, Submission
from muster.service.waiting import describe_refusal
from tests.service.controller.test_fake_nodes import World, a_job


class ChoosingEngine(FakeEngine):
    """Gives the highest GPUs first, whatever ids it is given; keeps starts pending that the test names."""

    capabilities = EngineCapabilities(
        can_resize=True,
        runs_as_users=False,
        chooses_gpu_ids=True,
        shares_gpus=False,
        pending_limit_seconds=5.0,
    )
    chosen: dict[tuple[int, int], tuple[NodeAllocation[str], ...]]
    blocked: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    clock: Callable[[], float]
    asked: list[float]
    """When it was asked to launch one of these."""
    taken: bool = False
    """Others have what the blocked ones were given."""

    def launch(self, launch: Launch) -> None:
        if launch.job in self.refused:
            self.asked.append(self.clock())
            raise StartRefused("no such account")
        super().launch(launch)
        if (launch.job, launch.epoch) not in self.chosen:
            real = tuple(self._highest(here) for here in launch.allocations)
            self.chosen[launch.job, launch.epoch] = real

    def _highest(self, here: NodeAllocation[str]) -> NodeAllocation[str]:
        living = {(one.job, one.epoch) for one in super().observe() if one.ended is None}
        taken = {
            gpu
            for key in living & self.chosen.keys()
            for at in self.chosen[key]
            if at.node == here.node
            for gpu in at.gpu_ids
        }
        free = [gpu for gpu in (1, 0) if gpu not in taken]
        assert len(free) >= len(here.gpu_ids), "more starts than GPUs"
        return replace(here, gpu_ids=tuple(free[: len(here.gpu_ids)]))

    def poll(self) -> EngineView:
        view = super().poll()
        return replace(view, starts=[self._reported(one) for one in view.starts])

    def _reported(self, one: Observed) -> Observed:
        if one.job in self.blocked:
            return replace(one, pending="Resources", place_taken=self.taken)
        return replace(one, allocations=self.chosen[one.job, one.epoch])


class FixedEngine(ChoosingEngine):
    """CPUs and memory of what runs stay as they are."""

    capabilities = replace(ChoosingEngine.capabilities, can_resize=False)


class ChoosingWorld(World):
    engine: ChoosingEngine
    kind: type[ChoosingEngine] = ChoosingEngine

    def an_engine(self) -> FakeEngine:
        engine = self.kind(self.folder / "fake", self.cluster, self.pace, self.clock)
        engine.asked, engine.clock = [], lambda: self.seconds
        engine.chosen = self.chosen = getattr(self, "chosen", {})
        return engine

    def check(self) -> None:
        """By numbers of GPUs: the record has the plan's ids until the engine has reported its own."""
        assert not self.controller.jobs.columns.ledger.balance().any()
        held = Counter[str]()
        for interval in self.store.allocation_intervals(open_only=True):
            held[interval.allocation.node] += len(interval.allocation.gpu_ids)
        assert all(held[node.name] <= node.gpus for node in self.cluster.nodes)

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.turn(1.0)

    def submit(self, steps: Sequence[int]) -> list[int]:
        return self.store.submit([Submission("ann", a_job(one)) for one in steps])


class FixedWorld(ChoosingWorld):
    kind = FixedEngine


@pytest.mark.parametrize("scheduler", ["fifo", "fifo+tune", "srtf+tune-plus"])
def test_the_record_shows_the_gpus_that_the_engine_chose(tmp_path: Path, scheduler: str) -> None:
    """Nothing is moved for an id, neither by this daemon nor by the next one."""
    world = ChoosingWorld(tmp_path, scheduler)
    world.submit([30, 300, 300, 30, 300, 300])
    world.turns(20)
    world.die()
    world.turns(60)
    open_ones = world.store.allocation_intervals(open_only=True)
    assert len(open_ones) == 4
    for interval in world.store.allocation_intervals():
        (real,) = world.chosen[interval.job, interval.epoch]
        assert (interval.allocation.node, interval.allocation.gpu_ids) == (real.node, real.gpu_ids)
    rows = world.store.jobs()
    assert [row.moves for row in rows] == [0] * 6
    if scheduler != "srtf+tune-plus":
        assert [row.epoch for row in rows] == [1] * 6
    world.store.close()


@pytest.mark.parametrize("scheduler", ["fifo", "fifo+tune", "srtf+tune-plus"])
def test_other_amounts_are_recorded_and_planned_with(tmp_path: Path, scheduler: str) -> None:
    """As where an administrator has changed a job that waited in Slurm: the start goes on with them."""
    world = FixedWorld(tmp_path, scheduler)
    first, _ = world.submit([300, 300])
    world.turn(0.0)
    (given,) = world.chosen[first, 1]
    real = replace(given, cpus=given.cpus - 1.0, memory_gb=given.memory_gb - 2.097152)
    world.chosen[first, 1] = (real,)
    world.turns(5)
    world.die()
    world.turns(5)
    (interval,) = world.store.allocation_intervals(first)
    held = interval.allocation
    assert (held.gpu_ids, held.cpus, held.memory_gb) == (real.gpu_ids, real.cpus, real.memory_gb)
    (planned,) = world.controller.jobs.columns.plan[first]
    assert (planned.cpus, planned.memory_gb) == (real.cpus, real.memory_gb)
    assert [row.epoch for row in world.store.jobs()] == [1, 1]
    (event,) = [one for one in world.store.events(first) if one.kind == "has other amounts"]
    assert event.detail == f"{real.node}: {real.cpus:g} CPU, {real.memory_gb:.3g} GB, not by Muster"
    world.store.close()


def test_other_amounts_without_room_are_given_back_once(tmp_path: Path) -> None:
    """As much of the node is planned for another job: what others gave there has no place in the plan."""
    world = FixedWorld(tmp_path, "fifo")
    first, _ = world.submit([300, 300])
    world.turn(0.0)
    (given,) = world.chosen[first, 1]
    world.chosen[first, 1] = (replace(given, cpus=given.cpus + 1.0),)
    world.turns(20)
    assert [row.epoch for row in world.store.jobs()] == [2, 1]
    assert [one.allocation.cpus for one in world.store.allocation_intervals(first)] == [
        given.cpus + 1.0,
        given.cpus,
    ]
    world.store.close()


def test_a_job_that_always_gets_other_amounts_runs_on(tmp_path: Path) -> None:
    """As where a plugin of Slurm rewrites each start: it is moved once for that, and keeps them then."""
    world = FixedWorld(tmp_path, "fifo")
    first, _ = world.submit([300, 300])
    world.turn(0.0)
    (given,) = world.chosen[first, 1]
    for epoch in range(1, 20):
        world.chosen[first, epoch] = (replace(given, cpus=given.cpus + 1.0),)
    world.turns(60)
    assert [row.epoch for row in world.store.jobs()] == [2, 1]
    world.store.close()


def test_a_start_that_stays_pending_is_taken_back(tmp_path: Path) -> None:
    world = ChoosingWorld(tmp_path, "fifo")
    world.engine.blocked = frozenset({1})
    (job,) = world.submit([300])
    world.turns(3)
    row = world.store.job(job)
    assert row is not None
    assert row.phase is Phase.STARTING, "it is pending"
    world.turns(5)
    assert taken_back(world, job) == ["pending for 5.0 s: Resources"]
    world.engine.blocked = frozenset()
    world.turns(10)
    row = world.store.job(job)
    assert row is not None
    assert (row.state, row.phase, row.epoch) == (State.RUNNING, Phase.RUNNING, 2)
    assert (row.preemptions, row.moves, row.deaths) == (0, 0, 0), "none of its doing, nor of the scheduler's"
    world.store.close()


def test_a_start_that_never_began_uses_no_time_limit(tmp_path: Path) -> None:
    """What the engine does not begin is waiting to its owner, although GPUs are held for it."""
    world = ChoosingWorld(tmp_path, "fifo")
    world.engine.blocked = frozenset({1})
    (job,) = world.store.submit(
        [Submission("ann", a_job(300).model_copy(update={"time_limit_seconds": 40.0}))]
    )
    world.turns(120)
    row = world.store.job(job)
    assert row is not None
    assert row.state in (State.QUEUED, State.RUNNING), row.message
    assert row.attained_gpu_seconds > 40
    assert (row.run_seconds, row.restart_seconds) == (0.0, 0.0)
    world.engine.blocked = frozenset()
    world.turns(120)
    row = world.store.job(job)
    assert row is not None
    assert row.state is State.TIMED_OUT
    assert row.run_seconds == pytest.approx(40.0, abs=3.0)
    world.store.close()


def test_a_taken_place_is_given_up_at_the_second_poll(tmp_path: Path) -> None:
    """One poll alone may have met the moment before the engine gives the place away."""
    world = ChoosingWorld(tmp_path, "fifo")
    world.engine.blocked, world.engine.taken = frozenset({1}), True
    (job,) = world.submit([300])
    world.turns(2)
    assert not taken_back(world, job), "one poll"
    world.turns(1)
    assert taken_back(world, job) == ["pending for 1.0 s: Resources"]
    world.store.close()


def test_a_refused_start_is_tried_after_pauses_and_said(tmp_path: Path) -> None:
    """The daemon is well meanwhile, and the GPUs come free between its starts."""
    world = ChoosingWorld(tmp_path, "fifo")
    world.engine.refused = frozenset({1})
    (job,) = world.submit([300])
    world.turns(5)
    assert world.engine.asked == [1.0, 2.0, 4.0], "after 1 s, then 2 s"
    assert refusal_of(world, job) == "fake: no such account; tried 3 times in 4.00 s"
    world.turns(4)
    assert taken_back(world, job) == ["refused for 7.0 s: no such account"]
    world.turns(2)
    assert not world.store.allocation_intervals(open_only=True), "others may have its GPUs"
    world.engine.refused = frozenset()
    world.turns(10)
    row = world.store.job(job)
    assert row is not None
    assert (row.state, row.phase, row.epoch, row.deaths) == (State.RUNNING, Phase.RUNNING, 2, 0)
    assert not refusal_of(world, job), "it runs"
    world.store.close()


def test_a_pending_start_says_why_after_two_seconds(tmp_path: Path) -> None:
    """Each start that is taken back counts as a try, however many polls find it pending."""
    world = ChoosingWorld(tmp_path, "fifo")
    world.engine.blocked = frozenset({1})
    (job,) = world.submit([300])
    world.turns(3)
    assert not refusal_of(world, job)
    world.turns(2)
    assert refusal_of(world, job) == "fake: Resources; tried once"
    world.turns(12)
    assert taken_back(world, job)
    assert refusal_of(world, job) == "fake: Resources; tried 2 times in 13.0 s"
    world.store.request_state(job, StateRequest.HOLD)
    world.turns(3)
    assert not refusal_of(world, job), "it is held"
    world.store.close()


def refusal_of(world: ChoosingWorld, job: int) -> str:
    row = world.store.job(job)
    assert row is not None
    return describe_refusal(row, world.status, world.seconds)


def taken_back(world: ChoosingWorld, job: int) -> list[str]:
    return [event.detail for event in world.store.events(job) if event.kind == "taken back"]
