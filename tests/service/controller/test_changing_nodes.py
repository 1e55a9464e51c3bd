"""Nodes that join, leave and change size while the daemon serves, and jobs of others that hold a part of them."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from muster.cluster import Cluster
from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.service.engines import EngineNode, EngineView
from muster.service.engines.fake import FakeEngine
from muster.service.request import JobRequest
from muster.service.store.rows import State, StateRequest, Submission
from tests.service.controller.test_fake_nodes import World, a_job
from tests.service.serving import serving_on


class ChangingEngine(FakeEngine):
    """Its nodes are what the test says."""

    there: Cluster
    others: dict[str, NodeAllocation[str]]
    closed: frozenset[str] = frozenset()

    def poll(self) -> EngineView:
        nodes = [
            EngineNode(node, self.others.get(node.name), node.name in self.closed)
            for node in self.there.nodes
        ]
        return EngineView(super().poll().starts, nodes)


class ChangingWorld(World):
    engine: ChangingEngine

    def an_engine(self) -> FakeEngine:
        engine = ChangingEngine(self.folder / "fake", self.cluster, self.pace, self.clock)
        engine.there = getattr(self, "there", self.cluster)
        engine.others = {}
        return engine

    def change(self, cluster: str) -> None:
        self.there = self.engine.there = parse_cluster(cluster)

    def hold(self, *held: NodeAllocation[str]) -> None:
        self.engine.others = {one.node: one for one in held}

    def turns(self, count: int = 3) -> None:
        for _ in range(count):
            self.turn(1.0)

    def places(self) -> dict[int, tuple[str, tuple[int, ...]]]:
        open_ones = self.store.allocation_intervals(open_only=True)
        return {one.job: (one.allocation.node, one.allocation.gpu_ids) for one in open_ones}

    def submit(self, count: int) -> list[int]:
        return self.store.submit([Submission("ann", a_job(1000)) for _ in range(count)])


@pytest.fixture(params=["fifo", "srtf+tune-plus"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> ChangingWorld:
    return ChangingWorld(tmp_path, request.param)


def test_a_job_on_a_closed_node_makes_no_room(tmp_path: Path) -> None:
    """What it gave back there could be given to no other job, until the node is open again."""
    world = ChangingWorld(tmp_path, "priority+tune-plus")
    request = a_job(100_000).model_copy(update={"gpus": 2, "preemptible": True})
    (low,) = world.store.submit([Submission("ann", request)])
    world.turns()
    (node, _) = world.places()[low]
    other = next(one.name for one in world.cluster.nodes if one.name != node)
    world.store.drain(other, drained=True)
    world.engine.closed = frozenset({node})
    world.turns(300)
    (high,) = world.store.submit([Submission("ann", request.model_copy(update={"priority": 5.0}))])
    world.turns(300)
    assert world.places().keys() == {low}
    world.engine.closed = frozenset()
    world.turns(300)
    assert world.places().keys() == {high}
    world.store.close()


def test_a_node_that_joins_takes_waiting_jobs(world: ChangingWorld) -> None:
    jobs = world.submit(5)
    world.turns()
    before = world.places()
    assert len(before) == 4
    world.change("3x2gpu,6cpu,100gb")
    world.turns()
    after = world.places()
    assert after.keys() == set(jobs)
    assert {job: after[job] for job in before} == before, "the others stay where they are"
    assert "node-2" in {node for node, _ in after.values()}
    assert world.status.cluster.total_gpus == 6
    assert world.store.configurations()[-1][1]["cluster"] == world.status.cluster.to_dict()
    world.store.close()


def test_held_gpus_of_the_past_are_those_of_its_cluster(world: ChangingWorld) -> None:
    world.submit(5)
    world.turns()
    world.change("3x2gpu,6cpu,100gb")
    world.turns()
    world.cluster = parse_cluster("1x2gpu,6cpu,100gb")
    world.die()
    world.change("1x2gpu,6cpu,100gb")
    world.turns(20)
    with serving_on(world.store, world.status, world.folder) as api:
        for _ in range(2):
            points = api.ask("GET", "/v1/usage?since=0").json["points"]
            assert [point["held_gpus"] for point in points] == [point["running"] for point in points]
            assert {4, 5, 2} <= {point["held_gpus"] for point in points}
    world.store.close()


def test_a_node_that_shrinks_keeps_what_still_fits(world: ChangingWorld) -> None:
    world.submit(4)
    world.turns()
    world.change("2x1gpu,6cpu,100gb")
    world.turns(6)
    places = world.places()
    assert sorted(places.values()) == [("node-0", (0,)), ("node-1", (0,))]
    rows = [world.store.job(job) for job in (1, 2, 3, 4)]
    assert [row.deaths for row in rows if row is not None] == [0, 0, 0, 0]
    assert sum(row.state is State.QUEUED for row in rows if row is not None) == 2
    world.store.close()


def test_a_new_daemon_finds_the_changed_nodes(world: ChangingWorld) -> None:
    world.submit(5)
    world.change("3x2gpu,6cpu,100gb")
    world.turns()
    before = world.places()
    assert len(before) == 5
    world.die()
    world.turns()
    assert world.places() == before
    world.store.close()


def test_what_others_hold_is_planned_around(world: ChangingWorld) -> None:
    world.hold(NodeAllocation("node-0", (1,), 3.0, 50.0), NodeAllocation("node-1", (0, 1), 6.0, 100.0))
    jobs = world.submit(3)
    world.turns()
    assert list(world.places().values()) == [("node-0", (0,))]
    assert world.status.others["node-0"].gpu_ids == (1,)
    world.hold(NodeAllocation("node-1", (1,), 1.0, 1.0))
    world.turns()
    assert sorted(world.places().values()) == [("node-0", (0,)), ("node-0", (1,)), ("node-1", (0,))]
    world.hold()
    world.turns()
    assert world.places().keys() == set(jobs)
    world.store.close()


@pytest.mark.parametrize(
    ("running", "others", "gpus"),
    [
        (
            0,
            NodeAllocation("node-0", (1,), 1.0, 1.073741824),
            1,
        ),  # a GiB, no whole number of the ledger's units
        (1, NodeAllocation("node-0", (0, 1), 1.0, 1.0), 0),  # more GPUs than are free; the job needs none
    ],
)
def test_a_job_that_pauses_beside_others_is_decided_once(
    world: ChangingWorld, running: int, others: NodeAllocation[str], gpus: int
) -> None:
    """It has a place and may not start yet, as after it was taken back."""
    world.submit(running)
    world.turns(2)
    request = JobRequest(name="next", command=("true",), directory="/", gpus=gpus, cpus=1.0, memory_gb=1.0)
    (job,) = world.store.submit([Submission("ann", request)])
    world.controller.jobs.not_before[job] = inf
    world.hold(others, NodeAllocation("node-1", (0, 1), 6.0, 100.0))
    world.turns(2)
    decisions = world.status.decisions
    world.turns(8)
    assert job in world.controller.jobs.columns.plan
    assert world.status.decisions == decisions
    world.store.close()


@pytest.mark.parametrize(("full", "free"), [("node-0", "node-1"), ("node-1", "node-0")])
def test_a_job_is_placed_where_others_leave_room(world: ChangingWorld, full: str, free: str) -> None:
    world.hold(NodeAllocation(full, (0, 1), 6.0, 100.0))
    world.submit(1)
    world.turns()
    assert [node for node, _ in world.places().values()] == [free]
    world.store.close()


def test_others_beside_running_jobs_disturb_none(world: ChangingWorld) -> None:
    """Neither what they take of a job's share, nor what they say they hold of its GPUs."""
    world.submit(4)
    world.turns()
    before = world.places()
    world.hold(NodeAllocation("node-0", (0, 1), 6.0, 100.0))
    world.turns()
    assert world.places() == before
    world.store.close()


def test_no_job_starts_where_others_came_first(world: ChangingWorld) -> None:
    """They come between the decision and the start: the job waits for another decision."""
    world.submit(4)
    world.turns()
    node, gpus = world.places()[1]
    world.submit(1)
    world.engine.signal(1, 1, "SIGTERM")
    world.store.request_state(1, StateRequest.CANCEL)
    world.hold(NodeAllocation(node, gpus, 1.0, 1.0))
    world.turns()
    assert len(world.places()) == 3
    assert (node, gpus) not in world.places().values()
    world.hold()
    world.turns()
    assert len(world.places()) == 4
    world.store.close()
