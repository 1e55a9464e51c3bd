"""A job with another priority: decisions go by it."""

from __future__ import annotations

from pathlib import Path

from muster.service.store.rows import State, Submission

from ..serving import a_request
from .test_fake_nodes import World


def test_next_decision_goes_by_the_new_priority(tmp_path: Path) -> None:
    """Also after the daemon was killed before it took it."""
    world = World(tmp_path, "priority+tune-plus")
    jobs = world.store.submit([Submission("ann", a_request(gpus=4, steps=10**6)) for _ in range(4)])

    def running() -> list[int]:
        return [row.id for row in world.store.jobs([State.RUNNING])]

    def turns() -> None:
        for _ in range(10):
            world.turn(1.0)

    turns()
    assert running() == jobs[:1]
    world.store.set_priority(jobs[2], 7.0, "ann")
    turns()
    assert running() == [jobs[2]]
    world.store.set_priority(jobs[3], 9.0, "ann")
    world.die()
    turns()
    assert running() == [jobs[3]]
    world.store.close()
