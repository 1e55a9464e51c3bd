"""A daemon begins on another cluster than the one before it: only a job that has no place there waits."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cluster.shipped import parse_cluster
from muster.service.live_scheduler import live_scheduler
from muster.service.request import JobRequest
from muster.service.start_intervals import QueueEstimate, StartAnswer
from muster.service.start_question import SeenQueue, question_of
from muster.service.store.rows import Caller, JobRow, State, Submission
from muster.service.waiting import ClosedNodes
from muster.service.why import why_waiting

from .test_fake_nodes import World

OLD = "2x2gpu,6cpu,100gb+1x4a100,12cpu,200gb"
WAITS = (State.QUEUED, "fits_nowhere")


class Moving(World):
    """What still runs where a cluster was is no part of the new one."""

    def check(self) -> None:
        assert not self.controller.jobs.columns.ledger.balance().any()


def world_on(folder: Path, scheduler: str, cluster: str) -> World:
    world = Moving(folder, scheduler)
    begin_again(world, cluster)
    return world


def begin_again(world: World, cluster: str) -> None:
    """Another daemon on the same store."""
    world.cluster = parse_cluster(cluster)
    world.die()


def submitted(world: World, **fields: object) -> int:
    asked = {"name": "job", "command": ("true",), "directory": "/", "steps": 100, **fields}
    return world.store.submit([Submission("ann", JobRequest.model_validate(asked))])[0]


def row_of(world: World, job: int) -> JobRow:
    row = world.store.job(job)
    assert row is not None
    return row


def estimate_of(world: World) -> QueueEstimate:
    held = world.store.allocation_intervals(open_only=True)
    seen = SeenQueue(world.seconds, world.store.living(), [], held, ClosedNodes())
    question = question_of(seen, world.status, 5)
    return QueueEstimate(seen, StartAnswer(question, question.answer()))


def why(world: World, job: int) -> str:
    estimate = estimate_of(world)
    reply = why_waiting(row_of(world, job), estimate, world.status, Caller("ann", True), world.seconds)
    return " ".join(reply.sentences)


@pytest.mark.parametrize("scheduler", ["fifo+easy", "fifo+conservative", "multifactor+conservative"])
@pytest.mark.parametrize("cluster", ["1x2gpu,6cpu,100gb", "1x4a100,12cpu,200gb+3x2gpu,6cpu,100gb"])
def test_a_reservation_on_nodes_that_are_gone_is_dropped(
    tmp_path: Path, scheduler: str, cluster: str
) -> None:
    """Each node runs a job, and the next jobs have reserved all of them, the last in the list too."""
    world = world_on(tmp_path, scheduler, "5x2gpu,6cpu,100gb")
    for seconds in (400, 300, 200, 100, 50):
        submitted(world, gpus=2, steps=seconds, time_limit_seconds=seconds + 60)
    world.turn(1.0)
    waiting = [submitted(world, gpus=2, steps=20, time_limit_seconds=60) for _ in range(5)]
    for _ in range(3):
        world.turn(1.0)
    begin_again(world, cluster)
    for _ in range(200):
        world.turn(10.0)
    assert all(row_of(world, job).state is State.COMPLETED for job in waiting)
    world.store.close()


@pytest.mark.parametrize("scheduler", ["fifo", "las+tune-plus"])
def test_a_job_that_fits_nowhere_any_more_waits_alone(tmp_path: Path, scheduler: str) -> None:
    world = world_on(tmp_path, scheduler, OLD)
    pinned = submitted(world, constraint="gpu_type=a100", held=True)
    wide = submitted(world, gpus=8, held=True)
    fat = submitted(world, cpus=12, held=True)
    for job in (pinned, wide, fat):
        world.store.request_state(job, "release")  # type: ignore[arg-type]
    plain = submitted(world)
    world.store.close()

    # Not one turn of the old one: they are as they came.
    world.cluster = parse_cluster("2x2gpu,6cpu,100gb")
    world.begin()
    for _ in range(20):
        world.turn(1.0)
    assert {(row_of(world, job).state, row_of(world, job).reason) for job in (pinned, wide, fat)} == {WAITS}
    assert row_of(world, plain).state is State.RUNNING

    begin_again(world, OLD)
    for _ in range(60):
        world.turn(30.0)
    assert {row_of(world, job).state for job in (pinned, wide, fat, plain)} == {State.COMPLETED}
    world.store.close()


def test_why_names_what_a_cluster_lacks_and_estimates_the_others(tmp_path: Path) -> None:
    world = world_on(tmp_path, "fifo", OLD)
    odd = submitted(world, constraint="gpu_type=a100", gpus=8, cpus=40)
    plain = submitted(world)
    begin_again(world, "2x2gpu,6cpu,100gb")
    world.turn(1.0)
    reply = why(world, odd)
    assert "It would not fit if the whole cluster were free." in reply
    assert "As to its constraint (gpu_type=a100): no node of cluster 2x2gpu,6cpu,100gb has it" in reply
    assert "A simulation of the present queue never starts it" in reply
    answer = estimate_of(world).answer
    assert answer is not None
    assert list(answer.found[0].ends) == [str(plain)]
    begin_again(world, "2x2a100,6cpu,100gb")
    world.turn(1.0)
    reply = why(world, odd)
    assert "As to its gpus (8): cluster 2x2a100,6cpu,100gb has 4 GPUs" in reply
    assert "As to its cpus (40.0): cluster 2x2a100,6cpu,100gb has no room for so much" in reply
    world.store.close()


def test_another_scheduler_leaves_out_what_it_does_not_serve(tmp_path: Path) -> None:
    world = world_on(tmp_path, "fifo", "1x2gpu,6cpu,100gb")
    running = submitted(world, gpu_share=0.5, steps=1000)
    world.turn(1.0)
    wide, share = submitted(world, gpus=2), submitted(world, gpu_share=0.5)
    without_gpus = submitted(world, gpus=0, cpus=1, memory_gb=1)
    plain = submitted(world)
    world.policy = live_scheduler("slurm", {}, 20.0)
    world.die()
    for _ in range(60):
        world.turn(1.0)
    rows = [row_of(world, job) for job in (running, wide, share, without_gpus, plain)]
    running_and_waiting = [State.RUNNING, State.QUEUED, State.QUEUED, State.QUEUED, State.RUNNING]
    assert [row.state for row in rows] == running_and_waiting
    assert [row.reason for row in rows[2:4]] == ["gpu_not_parted", "only_with_gpus"]
    assert "As to its gpu_share (0.5): slurm gives whole GPUs only" in why(world, share)
    said = why(world, without_gpus)
    assert (
        f"As to its gpus (0): slurm has no place for jobs without GPUs. Hint: `muster cancel {without_gpus}` and "
        "submit it again with a GPU, or ask the operator to serve with --scheduler "
    ) in said
    answer = estimate_of(world).answer
    assert answer is not None
    assert str(wide) in answer.found[0].starts
    world.store.close()


@pytest.mark.parametrize("scheduler", ["smd", "optimus", "fifo+easy", "slurm"])
def test_a_running_share_goes_on_where_gpus_are_not_divided(tmp_path: Path, scheduler: str) -> None:
    world = world_on(tmp_path, "las", "2x2gpu,6cpu,100gb")
    share = submitted(world, gpu_share=0.5, steps=300)
    world.turn(1.0)
    world.turn(1.0)
    world.policy = live_scheduler(scheduler, {}, 20.0)
    world.die()
    others = [submitted(world, gpus=gpus) for gpus in (1, 2)]
    for _ in range(30):
        world.turn(5.0)
    assert [row_of(world, job).state for job in others] == [State.COMPLETED] * 2
    assert (row_of(world, share).state, row_of(world, share).epoch) == (State.RUNNING, 1)
    world.store.close()


def test_the_numbers_of_a_reason_are_of_the_last_decision(tmp_path: Path) -> None:
    world = world_on(tmp_path, "fifo", "1x4gpu,12cpu,100gb")
    for steps in (5, 1000):
        submitted(world, gpus=2, steps=steps)
    world.turn(1.0)
    gang = submitted(world, gpus=4)
    world.turn(1.0)
    assert "It needs 4 GPUs and 0 are free." in why(world, gang)
    for _ in range(10):
        world.turn(1.0)
    assert row_of(world, gang).reason_parameters == {"needs": 4.0, "free": 0.0}
    assert "It needs 4 GPUs and 2 are free." in why(world, gang)
    world.store.close()


def test_why_names_an_end_that_gives_back_what_the_job_may_use(tmp_path: Path) -> None:
    world = world_on(tmp_path, "quota+fifo", OLD)
    world.policy = live_scheduler("quota+fifo", {"limits": "a:1"}, 20.0)
    world.die()
    of_tenant = submitted(world, tenant="a", time_limit_seconds=50)
    pinned = submitted(world, constraint="gpu_type=a100", gpus=4, time_limit_seconds=50)
    submitted(world, gpus=2, time_limit_seconds=50)
    world.turn(1.0)
    limited = submitted(world, tenant="a", gpus=1)
    bound = submitted(world, constraint="gpu_type=a100", gpus=4)
    world.turn(1.0)
    assert row_of(world, limited).reason == "over_limit"
    assert f"What has to happen first: job {of_tenant} ends" in why(world, limited)
    assert f"What has to happen first: job {pinned} ends" in why(world, bound)
    world.store.close()


def test_why_names_no_job_without_gpus_as_their_holder(tmp_path: Path) -> None:
    world = world_on(tmp_path, "fifo", "1x2gpu,6cpu,100gb")
    without = submitted(world, gpus=0, cpus=1, memory_gb=1, steps=1000)
    world.turn(1.0)
    waiting = submitted(world, gpus=2, cpus=6)
    world.turn(1.0)
    assert "No job holds a GPU now." in why(world, waiting)
    holder = submitted(world, gpus=1, cpus=1, memory_gb=1, steps=1000)
    world.turn(1.0)
    reply = why_waiting(
        row_of(world, waiting), estimate_of(world), world.status, Caller("ann", True), world.seconds
    )
    assert f"1 of 2 GPUs is held, by job {holder} (job, 1)." in reply.sentences
    assert (reply.holders, reply.holders_count) == ([holder], 1)
    assert row_of(world, without).state is State.RUNNING
    world.store.close()


def test_what_runs_where_it_may_not_be_any_more_saves_and_waits(tmp_path: Path) -> None:
    world = world_on(tmp_path, "fifo", OLD)
    pinned = submitted(world, constraint="gpu_type=a100", gpus=4, steps=1000)
    other = submitted(world, gpus=2, steps=1000)
    for _ in range(20):
        world.turn(1.0)
    assert {row_of(world, job).state for job in (pinned, other)} == {State.RUNNING}

    begin_again(world, "1x2gpu,6cpu,100gb")
    for _ in range(20):
        world.turn(1.0)
    stopped = row_of(world, pinned)
    assert (stopped.state, stopped.reason) == WAITS
    assert stopped.steps_done > 0
    assert row_of(world, other).state is State.RUNNING

    begin_again(world, OLD)
    for _ in range(200):
        world.turn(30.0)
    assert {row_of(world, job).state for job in (pinned, other)} == {State.COMPLETED}
    world.store.close()


def test_an_unlaunched_start_on_gpus_that_are_gone_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_on(tmp_path, "fifo", "1x4gpu,12cpu,200gb")
    jobs = [submitted(world) for _ in range(4)]

    def killed(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(world.engine, "launch", killed)
    with pytest.raises(SystemExit):
        world.turn(1.0)
    assert {(row_of(world, job).state, row_of(world, job).epoch) for job in jobs} == {(State.RUNNING, 1)}

    begin_again(world, "1x1gpu,12cpu,200gb")
    for _ in range(60):
        world.turn(30.0)
    assert {row_of(world, job).state for job in jobs} == {State.COMPLETED}
    assert [row_of(world, job).epoch for job in jobs] == [1, 2, 2, 2]
    world.store.close()
