"""Nodes without processes: starts take their time by an injected clock, and are found again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.cluster.ledger import NodeAllocation
from muster.cluster.shipped import parse_cluster
from muster.service.engines import Exit, Launch
from muster.service.engines import fake as fake_module
from muster.service.engines.fake import FakeEngine, Pace, pace_of
from muster.service.request import JobRequest
from muster.service.store.rows import JobRow
from muster.training.run_folder import progress_file, read_progress
from muster.workload.models import shipped_models, synergy_models
from tests.building import column, jobs_of, run

CLUSTER = parse_cluster("2x8gpu,24cpu,500gb")


def allocation(cpus: float = 3.0, memory_gb: float = 62.5, gpus: int = 1) -> NodeAllocation[str]:
    return NodeAllocation("node-0", tuple(range(gpus)), cpus, memory_gb, 0.0625 * gpus)


class World:
    """Jobs of 100 steps, unless said; as many a second as they have CPUs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.steps = folder, 1000.0, 100.0
        self.reopen()

    def reopen(self) -> None:
        self.engine = FakeEngine(self.folder / "fake", CLUSTER, self.pace, lambda: self.now)

    def pace(self, job: int, allocations: Sequence[NodeAllocation[str]]) -> Pace:
        return Pace(self.steps, sum(here.cpus for here in allocations))

    def launch(self, job: int, epoch: int, cpus: float = 2.0) -> None:
        run_dir = self.folder / str(job) / "run"
        nothing = self.folder / "nothing"
        allocations = (allocation(cpus),)
        self.engine.launch(
            Launch(job, epoch, run_dir, nothing, ("true",), nothing, {}, allocations, (1,), None)
        )

    def reply(self, job: int) -> dict[str, object] | None:
        return read_progress(self.folder / str(job) / "run", epoch=1)


def test_a_start_takes_the_time_of_its_steps(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.launch(1, 1)
    for now, ended in ((1000.0, None), (1049.9, None), (1050.0, Exit.COMPLETED), (1060.0, Exit.COMPLETED)):
        world.now = now
        (one,) = world.engine.observe()
        assert (one.ended, one.since) == (ended, 1000.0 if ended is None else 1050.0)
    assert one.status == 0
    reply = world.reply(1)
    assert reply is not None
    assert (reply["epoch"], reply["state"], reply["step"], reply["steps_per_second"]) == (
        1,
        "trained",
        100,
        2.0,
    )
    world.engine.forget(1, 1)
    world.engine.forget(1, 1)
    assert world.engine.observe() == []


def test_stopped_and_started_again_it_has_the_rest_to_do(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.launch(1, 1)
    world.now += 20
    world.engine.signal(1, 1, "SIGTERM")
    (one,) = world.engine.observe()
    assert (one.ended, one.status, one.since) == (Exit.STOPPED, 75, 1020.0)
    reply = world.reply(1)
    assert reply is not None
    assert (reply["state"], reply["step"]) == ("stopped", 40)
    world.engine.forget(1, 1)
    world.launch(1, 2, cpus=1.0)
    world.now += 59
    assert world.engine.observe()[0].ended is None
    world.now += 1
    assert world.engine.observe()[0].ended is Exit.COMPLETED


def test_half_of_a_report_counts_for_nothing(tmp_path: Path) -> None:
    """Reports are not flushed: after a crash of the machine the newest one may be empty."""
    world = World(tmp_path)
    for epoch in (1, 2):
        world.launch(1, epoch)
        world.now += 20
        world.engine.signal(1, epoch, "SIGTERM")
        world.engine.observe()
        world.engine.forget(1, epoch)
    progress_file(tmp_path / "1" / "run", 2).write_text("")
    world.launch(1, 3)
    world.now += 29
    assert world.engine.observe()[0].ended is None
    world.now += 1
    assert world.engine.observe()[0].ended is Exit.COMPLETED


def test_other_cpus_change_the_pace_from_then_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.launch(1, 1)
    world.now += 10  # 20 steps
    world.engine.resize(1, 1, [allocation(8.0)])
    world.now += 9.99
    assert world.engine.observe()[0].ended is None
    world.now += 0.01
    assert world.engine.observe()[0].ended is Exit.COMPLETED


def test_a_job_without_steps_runs_until_it_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    monkeypatch.setattr(world, "pace", lambda job, allocations: Pace(math.inf, 1.0))
    world.reopen()
    world.launch(1, 1)
    world.now += 1e9
    world.reopen()
    assert world.engine.observe()[0].ended is None
    world.engine.kill(1, 1)
    assert world.engine.observe()[0].ended is Exit.STOPPED


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["launch", "signal", "kill", "resize", "forget", "look"]),
        st.integers(1, 3),
        st.integers(1, 2),
        st.sampled_from([0.0, 1.0, 13.0, 60.0]),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=60)
@given(acts=ACTS, lines=st.integers(0, 3))
def test_reopening_an_engine_at_any_moment_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, int, int, float]], lines: int
) -> None:
    steady, restarted = (World(tmp_path_factory.mktemp(name)) for name in ("steady", "restarted"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_module, "_LINES_BEFORE_REWRITE", lines)
        for act, job, epoch, seconds in acts:
            for world in (steady, restarted):
                world.now += seconds
                if act == "launch":
                    with suppress(OSError):  # An older start of the job lives.
                        world.launch(job, epoch)
                elif act == "resize":
                    world.engine.resize(job, epoch, [allocation(float(job + 3))])
                elif act == "signal":
                    world.engine.signal(job, epoch, "SIGTERM")
                elif act == "kill":
                    world.engine.kill(job, epoch)
                elif act == "forget":
                    with suppress(OSError):  # It lives.
                        world.engine.forget(job, epoch)
            restarted.reopen()
            seen = [
                sorted(world.engine.observe(), key=lambda one: (one.job, one.epoch))
                for world in (steady, restarted)
            ]
            assert seen[0] == seen[1]


def test_a_line_that_was_cut_off_is_none(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.launch(1, 1)
    with (tmp_path / "fake" / "starts.jsonl").open("a") as file:
        file.write('{"job": 2, "ep')
    world.reopen()
    world.launch(3, 1)
    world.reopen()
    assert [one.job for one in world.engine.observe()] == [1, 3]


def test_a_pace_is_the_models(tmp_path: Path) -> None:
    """Of its slowest node; more CPUs make a job that waits for its input faster, one without a model not."""
    models = synergy_models()
    known = {name.lower(): model for name, model in models.items()}
    model = known["resnet18"]

    def pace(name: str | None, *allocations: NodeAllocation[str]) -> Pace:
        gpus = len(allocations)
        request = JobRequest(name="a", command=("true",), directory="/", model=name, steps=500, gpus=gpus)
        return pace_of(JobRow(1, "me", request, 0.0), allocations, known, CLUSTER)

    plenty = pace("resnet18", allocation(cpus=24.0, memory_gb=500.0))
    assert plenty.steps == 500.0
    assert plenty.steps_per_second == pytest.approx(1 / (model.seconds_per_iteration / model.speed[-1][-1]))
    poor = pace("resnet18", allocation(cpus=1.0))
    assert poor.steps_per_second < plenty.steps_per_second
    assert pace("resnet18", allocation(cpus=24.0, memory_gb=500.0), allocation(cpus=1.0)) == poor
    assert pace(None, allocation(cpus=0.1)).steps_per_second == 1.0


def test_a_pace_goes_along_with_the_size(tmp_path: Path) -> None:
    assert paces_by_size(None) == [0.5, 1.0, 1.5]


def test_a_pace_goes_by_the_law_of_the_model(tmp_path: Path) -> None:
    """Four GPUs are less than twice as fast as two, and as in a simulation."""
    _, two, _, four = paces_by_size("pollux-cifar10")
    jobs = {"submit_seconds": 0.0, "duration_seconds": 1000.0, "gpus": 2, "min_gpus": 1}
    rows = [jobs | {"max_gpus": most, "model": "pollux-cifar10"} for most in (2, 4)]
    two_gpus, four_gpus = (run(jobs_of(row), CLUSTER, "gittins+joint") for row in rows)
    assert four / two == pytest.approx(
        column(two_gpus, "jct_seconds")[0] / column(four_gpus, "jct_seconds")[0]
    )
    assert four / two < 1.9


def paces_by_size(model: str | None) -> list[float]:
    """Steps a second of a job that asks for two GPUs, on one to four of them."""
    request = JobRequest(
        name="a", command=("true",), directory="/", gpus=2, min_gpus=1, max_gpus=4, model=model
    )
    known = {name.lower(): found for name, found in shipped_models().items()}
    places = [allocation(3.0 * gpus, 62.5 * gpus, gpus) for gpus in range(1, 5 if model else 4)]
    row = JobRow(1, "me", request, 0.0)
    return [pace_of(row, [place], known, CLUSTER).steps_per_second for place in places]


@pytest.mark.parametrize("steps_per_second", [3.7, 14.3, 41.0])
def test_what_ends_by_itself_has_made_all_its_steps(tmp_path: Path, steps_per_second: float) -> None:
    """A Unix time has six digits after the point, not enough for the last part of a step."""
    world = World(tmp_path)
    world.now, world.steps = 1_795_000_000.0, 2741.0
    for job in range(1, 101):
        world.now += 0.123
        world.launch(job, 1, cpus=steps_per_second)
    world.now += 4_000.0
    world.engine.observe()
    assert {str(reply and reply["step"]) for reply in map(world.reply, range(1, 101))} == {"2741"}
