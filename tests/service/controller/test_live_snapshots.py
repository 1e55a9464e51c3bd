"""The last decision of a daemon, decided again from its file, is the one that the daemon carried out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.runtime.snapshots.file import SnapshotFile
from muster.runtime.snapshots.replay import replay
from muster.service.request import JobRequest
from muster.service.store.rows import State, Submission

from .test_fake_nodes import World


def submit(world: World, jobs: int, gpus: int, user: str, limit: float | None = 300.0) -> None:
    request = JobRequest(
        name="job", command=("true",), directory="/", steps=100, gpus=gpus, time_limit_seconds=limit
    )
    world.store.submit([Submission(user, request) for _ in range(jobs)])


def last(world: World) -> SnapshotFile:
    decided = world.status.last_decision
    assert decided is not None
    file = decided.taken.file(world.policy, decided.decision, "service")
    return SnapshotFile.model_validate(json.loads(file.text()))


@pytest.mark.parametrize(
    "scheduler", ["gittins+tune-plus", "dally", "multifactor+easy", "2d-las+requested", "network-sensitivity"]
)
def test_replay_decides_as_the_daemon_did(tmp_path: Path, scheduler: str) -> None:
    world = World(tmp_path, scheduler)
    seen, actions = 0, 0
    for turn in range(40):
        if turn % 4 == 0:
            submit(world, 2, 1 + turn % 3, ("ann", "ben")[turn // 4 % 2])
        if turn == 21:
            world.store.drain("node-1", True)
        world.turn(7.0)
        if world.status.decisions > seen:
            seen = world.status.decisions
            file = last(world)
            again = replay(file, "the last decision")
            assert again.remembers
            assert again.decision == file.decision
            actions += len(file.decision.actions)
            started = {int(one["job"]) for one in file.decision.actions if one["action"] == "start"}
            assert started <= world.controller.jobs.columns.plan.keys()
    assert seen > 5
    assert actions > 5
    world.store.close()


def test_replay_goes_on_with_what_a_killed_daemon_knew(tmp_path: Path) -> None:
    world = World(tmp_path, "multifactor+easy")
    submit(world, 3, 2, "ann")
    world.turn(1.0)
    world.turn(30.0)
    world.store.close()
    world.begin()
    submit(world, 1, 1, "ben")
    world.turn(1.0)
    file = last(world)
    assert replay(file, "the last decision").decision == file.decision
    assert any(row.state is State.QUEUED or row.state is State.RUNNING for row in world.store.jobs())
    world.store.close()
