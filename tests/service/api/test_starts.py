"""When jobs start, asked over the API: whose starts are answered, what is refused, and that asking changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from muster.formatting import duration
from muster.schedulers.registry import build
from muster.service import start_intervals
from muster.service.limits import Limits
from muster.service.simulated_queue import NoEstimate
from muster.service.start_intervals import StartIntervals
from muster.service.start_question import shapes_of
from muster.service.store.rows import State, StoreChanges, Submission

from ..serving import Serving, a_request, serving

SHAPE = {"name": "would", "command": ["true"], "directory": "/", "gpus": 4, "time_limit_seconds": 600.0}


@pytest.fixture
def clock(api: Serving, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The store's clock, which stands still until it is set."""
    clock = Clock(api.store.now())
    monkeypatch.setattr(api.store, "now", lambda: clock.now)
    return clock


@dataclass
class Clock:
    now: float


def would(api: Serving, token: str | None = None, **fields: Any) -> Any:
    return api.ask("POST", "/v1/would", {"request": {**SHAPE, **fields}, "draws": 5}, token)


def queued(api: Serving) -> list[int]:
    """Eight GPUs wait for three jobs, of two users."""
    limited = a_request(gpus=8, time_limit_seconds=300.0)
    return api.store.submit([Submission(user, limited) for user in ("ann", "ben", "ann")])


def test_a_long_queue_is_simulated_less_often(api: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless so many simulations are asked for; the answer says how many there were."""
    monkeypatch.setattr(start_intervals, "ENOUGH_SECONDS", 0.0)
    ended = api.store.submit([Submission("ann", a_request(time_limit_seconds=300.0))] * 8)
    ran = {"state": State.COMPLETED, "first_start": 1.0, "run_seconds": 30.0}
    api.store.commit(StoreChanges(jobs=dict.fromkeys(ended, ran)))
    queued(api)
    for asked, draws in (("", 9), ("?draws=12", 12)):
        found = api.ask("GET", f"/v1/starts{asked}").json
        assert (found["draws"], {one["start"]["draws"] for one in found["jobs"]}) == (draws, {draws})
    found = api.ask("POST", "/v1/would", {"request": SHAPE}).json
    assert (found["draws"], {one["start"]["draws"] for one in found["shapes"]}) == (9, {9})


@pytest.mark.usefixtures("clock")
def test_users_see_their_own_starts_and_operators_all(api: Serving) -> None:
    first, second, third = queued(api)
    ben = api.ask("POST", "/v1/tokens", {"user": "ben", "role": "user"}).json["token"]
    everything = api.ask("GET", "/v1/starts?draws=5").json
    medians = {one["job_id"]: one["start"]["median_seconds"] for one in everything["jobs"]}
    assert medians.keys() == {first, second, third}
    assert medians[second] - medians[first] == pytest.approx(300.0, abs=0.1)
    assert medians[third] - medians[second] == pytest.approx(300.0, abs=0.1)
    own = api.ask("GET", "/v1/starts?draws=5", token=ben).json
    assert [one["job_id"] for one in own["jobs"]] == [second]
    assert (own["running"], own["waiting"], own["ended"], own["draws"]) == (0, 3, 0, 1), "nothing is drawn"


def test_why_gives_the_interval_of_queue_start(api: Serving, clock: Clock) -> None:
    """One simulated queue answers both, whichever is asked first, and by the time both are asked."""
    ended = api.store.submit([Submission("ann", a_request(time_limit_seconds=300.0))] * 8)
    for at, job in enumerate(ended):
        ran = {"state": State.COMPLETED, "first_start": 1.0, "run_seconds": 30.0 * (at + 1)}
        api.store.commit(StoreChanges(jobs={job: ran}))
    jobs = queued(api)

    def why(job: int) -> dict[str, Any]:
        found: dict[str, Any] = api.ask("GET", f"/v1/jobs/{job}/why").json
        return why(job) if found["start_pending"] else found

    first = why(jobs[2])
    clock.now += 20.0
    asked = {one["job_id"]: one["start"] for one in api.ask("GET", "/v1/starts").json["jobs"]}
    starts = {job: why(job)["start"] for job in jobs}
    assert starts == asked
    assert starts[jobs[2]]["median_seconds"] == pytest.approx(first["start"]["median_seconds"] - 20.0)
    last = asked[jobs[2]]
    assert last["low_seconds"] < last["median_seconds"] < last["high_seconds"]
    assert last["draws"] == 40
    said = why(jobs[2])
    assert said["ahead"] == jobs[:2]
    words = (
        f"It is expected to start in {duration(last['median_seconds'])} (80 % interval: "
        f"{duration(last['low_seconds'])} to {duration(last['high_seconds'])}; 40 simulations of the queue)."
    )
    assert words in said["sentences"]
    clock.now += 20.0
    again = {one["job_id"]: one["start"] for one in api.ask("GET", "/v1/starts").json["jobs"]}
    assert again[jobs[2]]["median_seconds"] == first["start"]["median_seconds"], "asked again"


def test_why_does_not_wait_for_simulations(api: Serving) -> None:
    """What it says without them comes at once; they go on, and a later question gets their answer."""
    jobs = queued(api)

    async def ask() -> None:
        intervals = StartIntervals(api.store, api.status)
        first = await intervals.with_job(jobs[0], 0.0)
        assert (first.pending, [row.id for row in first.seen.living]) == (True, jobs)
        # A decision meanwhile begins no other question.
        api.status.decisions += 1
        later = await intervals.with_job(jobs[0], 60.0)
        assert later.seen.now > first.seen.now
        assert later.answer is not None
        assert later.answer.question.state.now == first.seen.now
        # Outdated by then: a new question is begun, and until it is answered the last answer is given.
        again = await intervals.with_job(jobs[0], 0.0)
        assert again.seen is not first.seen
        assert again.answer is later.answer
        assert (await intervals.with_job(jobs[0], 60.0)).answer is not later.answer

    asyncio.run(ask())


def test_what_is_seen_is_of_the_last_decision(api: Serving) -> None:
    """While an earlier question is being answered too; its answer is not given once other nodes are closed."""
    (job,) = api.store.submit([Submission("ann", a_request(steps=10))])
    intervals = StartIntervals(api.store, api.status)

    async def asked() -> None:
        assert (await intervals.with_job(job, 60.0)).answer is not None
        api.status.decisions += 1
        async with intervals._one_at_a_time:
            again = await intervals.with_job(job, 0.0)
            assert (again.answer is not None, again.seen.closed.names) == (True, [])
            for node in ("node-0", "node-1"):
                api.store.drain(node, True)
            api.status.decisions += 1
            drained, same = [await intervals.with_job(job, 0.0) for _ in range(2)]
            assert drained.seen.closed.names == ["node-0", "node-1"]
            assert same.seen is drained.seen
            assert drained.pending
        assert "all nodes are drained" in (await intervals.with_job(job, 60.0)).obstacle

    asyncio.run(asked())


def test_a_job_that_came_later_is_asked_about_again(api: Serving) -> None:
    first, *_ = queued(api)

    async def ask() -> None:
        intervals = StartIntervals(api.store, api.status)
        begun = await intervals.with_job(first, 0.0)
        (later,) = api.store.submit([Submission("ann", a_request(steps=9))])
        assert (await intervals.with_job(first, 0.0)).seen is begun.seen
        with_it = await intervals.with_job(later, 0.0)
        assert later in [row.id for row in with_it.seen.living]
        assert (await intervals.with_job(first, 0.0)).seen is with_it.seen

    asyncio.run(ask())


def test_asking_changes_nothing(api: Serving) -> None:
    queued(api)
    before = api.store.version(), api.store.living(), api.status.decisions, api.status.policy.describe()
    ben = api.ask("POST", "/v1/tokens", {"user": "ben", "role": "user"}).json["token"]
    answer = would(api, ben)
    assert answer.status == 200, answer.message
    assert [one["gpus"] for one in answer.json["shapes"]] == [4, 2, 1]
    assert all(one["start"]["low_seconds"] == pytest.approx(900, abs=0.1) for one in answer.json["shapes"])
    after = api.store.version(), api.store.living(), api.status.decisions, api.status.policy.describe()
    assert after == before


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"gpus": 9}, 422, "ask for at most so many"),
        ({"held": True}, 422, "a job that is held"),
        ({"model": "never-profiled"}, 422, "never-profiled"),
        ({"gpus": -1}, 422, "gpus"),
    ],
)
def test_what_a_submission_refuses_is_refused(
    api: Serving, fields: dict[str, Any], status: int, says: str
) -> None:
    answer = would(api, **fields)
    assert (answer.status, says in answer.body.decode()) == (status, True), answer.body


def test_limits_of_users_hold_for_what_is_only_asked(tmp_path: Path) -> None:
    limits = Limits.model_validate({"default": {"max_jobs": 0}})
    with serving(tmp_path / "home", limits=limits) as api:
        ben = api.ask("POST", "/v1/tokens", {"user": "ben", "role": "user"}).json["token"]
        refused = would(api, ben)
        submitted = api.ask("POST", "/v1/jobs", SHAPE, ben)
        assert (refused.status, refused.message) == (403, submitted.message)
        assert "ben may have 0 jobs" in refused.message
        assert would(api).status == 200, "an operator is not limited"


def test_an_empty_queue_and_too_many_draws_are_refused(api: Serving) -> None:
    nothing = api.ask("GET", "/v1/starts")
    assert (nothing.status, "no waiting job could start" in nothing.message) == (409, True)
    assert api.ask("GET", "/v1/starts?draws=1001").status == 422


OWN = """
from dataclasses import dataclass
from typing import ClassVar

from muster.schedulers.parts import Order


@dataclass(frozen=True)
class Last(Order):
    name: ClassVar[str] = "last-first"
    preemptive: ClassVar[bool] = False
    by: float = 1.0

    def key(self, jobs):
        assert self.by < 3, "too large"
        return -1.0 * jobs.index * self.by
"""


@pytest.mark.parametrize(("by", "obstacle"), [(2, ""), (3, "the queue cannot be simulated")])
def test_a_scheduler_from_a_file_is_simulated(api: Serving, by: int, obstacle: str) -> None:
    file = api.home / "own.py"
    file.write_text(OWN)
    api.status.scheduler_named = f"{file}:Last"
    api.status.policy = build(api.status.scheduler_named, {"by": str(by)})
    first, _, last = queued(api)
    estimate = asyncio.run(StartIntervals(api.store, api.status).with_job(first, 60.0))
    assert estimate.obstacle == obstacle
    if estimate.answer is not None:
        starts = estimate.answer.found[0].starts
        assert starts[str(first)].median - starts[str(last)].median == pytest.approx(600.0, abs=1.0)


def test_simulations_that_take_too_long_are_ended(api: Serving) -> None:
    queued(api)

    async def ask() -> None:
        await StartIntervals(api.store, api.status, patience=0.01).of_queue(5)

    with pytest.raises(NoEstimate, match=r"take longer than 0\.01 s; fewer"):
        asyncio.run(ask())


def test_a_question_does_not_wait_for_ever_for_its_turn(api: Serving) -> None:
    queued(api)

    async def ask() -> list[Any]:
        intervals = StartIntervals(api.store, api.status, patience=0.2)
        shapes = shapes_of(a_request(), "ann", api.store.now())
        return await asyncio.gather(
            *(intervals.of_shapes(shapes, 1000) for _ in range(3)), return_exceptions=True
        )

    first, *_, last = map(str, asyncio.run(ask()))
    assert "take longer than 0.2 s" in first
    assert last == "questions asked before it took longer than 0.2 s; ask again later"


def test_only_so_many_wait_for_an_answer(api: Serving) -> None:
    queued(api)

    async def ask() -> list[Any]:
        intervals = StartIntervals(api.store, api.status, patience=0.01)
        shapes = shapes_of(a_request(), "ann", api.store.now())
        some = [asyncio.create_task(intervals.of_shapes(shapes, 5)) for _ in range(10)]
        await asyncio.sleep(0)
        refused = await intervals.with_job(1, 60.0)
        assert refused.obstacle == "8 others are asking now; ask again later"
        return await asyncio.gather(*some, return_exceptions=True)

    answers = [str(one) for one in asyncio.run(ask())]
    assert answers.count("8 others are asking now; ask again later") == 2


def test_a_hundred_requests_share_one_answer(api: Serving) -> None:
    jobs = queued(api)

    async def ask() -> list[Any]:
        intervals = StartIntervals(api.store, api.status)
        whole = [intervals.of_queue(None) for _ in range(50)]
        each = await asyncio.gather(*whole, *(intervals.with_job(jobs[0], 60.0) for _ in range(50)))
        return [getattr(one, "answer", one) for one in each]

    assert len({id(one) for one in asyncio.run(ask())}) == 1
