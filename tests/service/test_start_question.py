"""Estimates of starts against what the controller then does, on fake nodes and a clock at will."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster.schedulers.registry import build
from muster.service.request import JobRequest
from muster.service.simulated_queue import NoEstimate
from muster.service.start_intervals import QueueEstimate, StartAnswer
from muster.service.start_question import ASKED, MOST_ENDED, SeenQueue, question_of, shapes_of
from muster.service.start_simulations import StartQuestion
from muster.service.store.rows import ENDED, Caller, JobSearch, State, Submission
from muster.service.waiting import closed_nodes
from muster.service.why import why_waiting
from muster.simulation.start_estimates import ExpectedQueue, StartEstimate

from .controller.test_fake_nodes import World

TURN = 10.0
DRAWS = 10
NAMED = {"model": "resnet18", "preemptible": False}


class Site(World):
    """Two nodes of two GPUs, as the controller's tests have them."""

    def submit(self, *jobs: Mapping[str, Any]) -> None:
        self.store.submit([Submission("ann", a_job(**job)) for job in jobs])

    def question(
        self, shapes: Sequence[JobRequest] = (), waiting: Sequence[int] | None = None
    ) -> StartQuestion:
        rows = [row for shape in shapes for row in shapes_of(shape, "ann", self.seconds)]
        return question_of(self.seen(waiting), self.status, DRAWS, rows)

    def seen(self, waiting: Sequence[int] | None = None) -> SeenQueue:
        """The queue as it is; `waiting`: with these waiting jobs alone."""
        ended = self.store.search(JobSearch(states=ENDED, limit=MOST_ENDED))[0]
        living = [row for row in self.store.living() if waiting is None or row.state is not State.QUEUED]
        living += [row for row in self.store.living() if waiting is not None and row.id in waiting]
        closed = closed_nodes(self.store, self.status)
        held = self.store.allocation_intervals(open_only=True)
        return SeenQueue(self.seconds, living, ended, held, closed)

    def starts(self) -> dict[int, StartEstimate]:
        # As the process of its own gets it.
        again: StartQuestion = pickle.loads(pickle.dumps(self.question()))
        return {int(job): one for job, one in again.answer()[0].starts.items()}

    def waiting(self) -> list[int]:
        return [row.id for row in self.store.living() if row.state is State.QUEUED]

    def run_until_started(self, jobs: Sequence[int], turn: float = TURN) -> dict[int, float]:
        """When each job starts, in seconds from now."""
        now = self.seconds
        for _ in range(2000):
            started = {job: self.first_start(job) for job in jobs}
            if None not in started.values():
                return {job: start - now for job, start in started.items() if start is not None}
            self.turn(turn)
        raise AssertionError(f"{jobs} do not all start")

    def first_start(self, job: int) -> float | None:
        row = self.store.job(job)
        assert row is not None
        return row.first_start


def a_job(**fields: Any) -> JobRequest:
    return JobRequest(name="job", command=("true",), directory="/", **fields)


def test_running_jobs_go_on_at_once_in_turns_of_any_length(tmp_path: Path) -> None:
    """With weeks of work waiting, a turn of the simulation takes hours."""
    site = Site(tmp_path, "fifo")
    site.submit({**NAMED, "steps": 3_000, "gpus": 4}, {**NAMED, "steps": 50_000_000, "gpus": 4})
    for _ in range(2):
        site.turn(20.0)
    question = site.question()
    assert question.options.round_seconds is not None
    assert question.options.round_seconds > 600
    (expected,) = question.answer()
    assert expected.ends["1"] == pytest.approx(question.state.running["known_seconds"][0])


def test_a_job_above_the_cluster_has_a_start_at_its_least(tmp_path: Path) -> None:
    """It asks for 6 of 4 GPUs and may have 1: it starts once the first job ends, as in the daemon."""
    site = Site(tmp_path, "gittins+joint")
    site.submit({**NAMED, "steps": 3_000, "gpus": 4})
    site.turn(TURN)
    site.submit({**NAMED, "steps": 3_000, "gpus": 6, "min_gpus": 1})
    site.turn(TURN)
    expected = site.starts()[2]
    assert site.run_until_started([2])[2] == pytest.approx(expected.median, abs=2 * TURN)


@pytest.mark.parametrize("sizes", [{"gpus": 4}, {"gpus": 1, "max_gpus": 4}, {"gpus": 8, "min_gpus": 1}])
def test_a_job_takes_its_limit_before_any_has_ended(tmp_path: Path, sizes: dict[str, int]) -> None:
    """Whatever it holds of what it asks for: four GPUs of four, of one and of eight."""
    site = Site(tmp_path, "gittins+joint")
    site.submit({"preemptible": False, "time_limit_seconds": 3_600.0, **sizes})
    site.turn(TURN)
    site.submit({**NAMED, "steps": 100, "gpus": 4})
    for _ in range(30):
        site.turn(TURN)
    expected = site.starts()[2]
    assert expected.median == pytest.approx(3_300.0, abs=2 * TURN)
    assert site.run_until_started([2])[2] == pytest.approx(expected.median, abs=2 * TURN)


@pytest.mark.parametrize(
    ("model", "sizes"), [("resnet18", {"gpus": 1}), ("resnet18", {"max_gpus": 4}), ("gnmt", {"max_gpus": 4})]
)
def test_what_a_silent_job_has_left_falls_as_time_passes(
    tmp_path: Path, model: str, sizes: dict[str, int]
) -> None:
    """At the speed that its model has on what it holds, whatever it asks for."""
    site = Site(tmp_path, "gittins+joint")
    site.submit({"preemptible": False, "model": model, "steps": 200_000, **sizes})
    site.turn(TURN)
    site.submit({**NAMED, "steps": 100, "gpus": 4})
    begun, ends = site.seconds, []
    for _ in range(5):
        for _ in range(20):
            site.turn(TURN)
        ends.append(site.question().answer()[0].ends["1"] + site.seconds - begun)
    assert max(ends) - min(ends) < 2 * TURN, "each time it ends at the same moment"


def test_jobs_take_what_those_took_that_had_as_many_gpus(tmp_path: Path) -> None:
    """Each asks for one GPU and has four: 250 s there is a thousand on one."""
    site = Site(tmp_path, "gittins+joint")
    alike: dict[str, Any] = {"max_gpus": 4, "preemptible": False}
    for _ in range(8):
        site.submit({**alike, "steps": 1_000})
        while site.store.living():
            site.turn(5.0)
    site.submit(alike)
    site.turn(5.0)
    site.submit({**NAMED, "steps": 100, "gpus": 4})
    site.turn(5.0)
    expected = site.starts()[10]
    assert expected.low == pytest.approx(250.0, abs=15.0)


@pytest.mark.parametrize(
    ("draws", "said"), [(1, "in the simulation of the queue"), (40, "in some of 40 simulations of the queue")]
)
def test_a_job_that_never_starts_is_said_so(tmp_path: Path, draws: int, said: str) -> None:
    site = Site(tmp_path, "fifo")
    site.submit({**NAMED, "steps": 3_000, "gpus": 4}, {**NAMED, "steps": 3_000})
    site.turn(TURN)
    row = site.store.job(2)
    assert row is not None
    answer = StartAnswer(site.question(), [ExpectedQueue({}, {}, draws)])
    estimate = QueueEstimate(site.seen(), answer)
    sentences = why_waiting(row, estimate, site.status, Caller("ann", operator=False), site.seconds).sentences
    assert sentences[-1] == f"When it starts cannot be said: {said} it never does."


def test_no_more_draws_are_begun_than_there_is_time_for(tmp_path: Path) -> None:
    """There are as many as an interval needs, and as many as are asked for where these are fewer."""
    site = Site(tmp_path, "fifo")
    site.submit({"steps": 30, "gpus": 4}, *[{"gpus": 1, "time_limit_seconds": 600.0}] * 3)
    while (row := site.store.job(1)) is None or row.state is not State.COMPLETED:
        site.turn(TURN)
    question = replace(site.question(), draws=40)
    counted = [
        [queue.draws for queue in replace(question, **given).answer()]
        for given in ({"enough_seconds": 0.0}, {"enough_seconds": 0.0, "draws": 5}, {"draws": 12})
    ]
    assert counted == [[9], [5], [12]]


@pytest.mark.parametrize("scheduler", ["fifo", "srtf"])
def test_known_durations_give_one_point_that_comes_true(tmp_path: Path, scheduler: str) -> None:
    site = Site(tmp_path, scheduler)
    site.submit(
        *({**NAMED, "steps": 100 + 37 * at % 120, "gpus": 1 + at % 4} for at in range(6)),
        {**NAMED, "model": "alexnet", "steps": 300, "gpus": 4},
    )
    for _ in range(2):
        site.turn(20.0)
    waiting, expected = site.waiting(), site.starts()
    assert len(waiting) >= 4
    assert expected.keys() == set(waiting)
    assert all(one.low == one.high for one in expected.values())
    happened = site.run_until_started(waiting)
    # The controller looks each few seconds, and each later start adds such a delay to those behind it.
    late = {job: happened[job] - expected[job].median for job in waiting}
    assert all(-1.0 <= seconds <= 2 * TURN * len(waiting) for seconds in late.values()), str(late)
    site.store.close()


@pytest.mark.long
def test_intervals_hold_most_of_the_starts(tmp_path: Path) -> None:
    """Nothing says how long jobs take: durations are drawn from those that ended, as long as these are."""
    site = Site(tmp_path, "fifo")
    lengths = np.random.default_rng(7).uniform(50, 1000, 140).astype(int).tolist()
    site.submit(*({"steps": length, "gpus": 1} for length in lengths[:80]))
    while len(site.waiting()) > 30:
        site.turn(TURN)
    inside, asked = 0, 0
    for round_of in range(3):
        waiting, expected = site.waiting(), site.starts()
        at = site.seconds
        site.submit(*({"steps": length, "gpus": 1} for length in lengths[80 + 20 * round_of :][:20]))
        site.run_until_started(waiting)
        for job in waiting:
            start = site.first_start(job)
            assert start is not None
            inside += expected[job].low - TURN <= start - at <= expected[job].high + TURN
            asked += 1
        assert min(one.high - one.low for one in expected.values()) > 0
    assert asked > 60
    assert inside / asked > 0.6, f"{inside} of {asked}"
    site.store.close()


def test_the_job_asked_about_starts_as_if_submitted(tmp_path: Path) -> None:
    site = Site(tmp_path, "fifo")
    site.submit(*({"model": "resnet18", "steps": 100, "gpus": gpus} for gpus in (4, 2, 3)))
    site.turn(20.0)
    asked = a_job(model="resnet18", steps=50, gpus=4, cpus=4.0, memory_gb=8.0)
    question = site.question([asked])
    found = [shape.starts[str(ASKED)] for shape in question.answer()]
    assert [shape["gpus"].item() for shape in question.shapes] == [4, 2, 1]
    assert [shape["cpus"].item() for shape in question.shapes] == [4.0, 2.0, 1.0]
    before = site.waiting()
    site.store.submit([Submission("ann", asked)])
    (job,) = set(site.waiting()) - set(before)
    happened = site.run_until_started([job])[job]
    assert found[0].low == found[0].high == pytest.approx(happened, abs=4 * TURN)
    site.store.close()


def test_a_drained_node_starts_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path, "fifo")
    site.store.drain("node-1", True)
    site.submit({"model": "resnet18", "steps": 100, "gpus": 2}, {"model": "resnet18", "steps": 10, "gpus": 1})
    site.submit({"model": "resnet18", "steps": 10, "gpus": 1})
    site.turn(1.0)
    site.turn(1.0)
    starts = site.starts()
    assert starts.keys() == {2, 3}
    assert starts[2].low > 0
    site.store.drain("node-0", True)
    with pytest.raises(NoEstimate, match="all nodes are drained"):
        site.question()
    site.store.close()


def test_nothing_starts_on_a_node_that_is_away(tmp_path: Path) -> None:
    site = Site(tmp_path, "fifo")
    site.submit(*({"model": "resnet18", "steps": 100, "gpus": 2} for _ in range(3)))
    site.turn(1.0)
    site.turn(1.0)
    alone = site.starts()[3].high
    site.status.away = frozenset(["node-1"])
    assert site.starts()[3].low > alone
    site.status.away = frozenset(["node-0", "node-1"])
    with pytest.raises(NoEstimate, match="all nodes are drained or away"):
        site.question()
    site.store.close()


def test_a_guess_is_counted_until_a_job_has_ended(tmp_path: Path) -> None:
    site = Site(tmp_path, "fifo")
    site.submit({"steps": 100, "gpus": 4}, {"steps": 100, "gpus": 4}, {"gpus": 4, "time_limit_seconds": 60.0})
    site.turn(1.0)
    site.turn(1.0)
    first = site.question()
    assert (first.guessed, first.state.ended.height) == (2, 0)
    site.run_until_started([2])
    later = site.question()
    assert (later.guessed, later.state.ended.height) == (0, 1)
    site.store.close()


def test_a_scheduler_of_somebodys_own_is_refused(tmp_path: Path) -> None:
    class Own:
        name = "own"

        def __getattr__(self, name: str) -> Any:
            return getattr(build("fifo", {}), name)

    site = Site(tmp_path, "fifo")
    site.submit({"gpus": 1})
    site.status.policy = Own()
    with pytest.raises(NoEstimate, match="own cannot be made again"):
        site.question()
    site.store.close()


def test_settings_come_along(tmp_path: Path) -> None:
    site = Site(tmp_path, "las")
    site.submit({"gpus": 1})
    settings = site.question().settings
    assert build(site.policy.name, dict(settings)).describe() == site.policy.describe()
    assert settings, "a turn of the service is not the default"
    site.store.close()
