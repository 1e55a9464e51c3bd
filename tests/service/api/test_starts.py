"""When jobs start, asked over the API: whose starts are answered, what is refused, and that asking changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.service.forecast import NoForecast
from muster.service.limits import Limits
from muster.service.start_intervals import StartIntervals
from muster.service.store.rows import Submission

from ..serving import Serving, a_request, serving

SHAPE = {"name": "would", "command": ["true"], "directory": "/", "gpus": 4, "time_limit_seconds": 600.0}


def would(api: Serving, token: str | None = None, **fields: Any) -> Any:
    return api.ask("POST", "/v1/would", {"request": {**SHAPE, **fields}, "draws": 5}, token)


def queued(api: Serving) -> list[int]:
    """Eight GPUs wait for three jobs, of two users."""
    limited = a_request(gpus=8, time_limit_seconds=300.0)
    return api.store.submit([Submission(user, limited) for user in ("ann", "ben", "ann")])


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
    assert (own["running"], own["waiting"], own["ended"], own["draws"]) == (0, 3, 0, 5)


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


def test_simulations_that_take_too_long_are_ended(api: Serving) -> None:
    queued(api)

    async def ask() -> None:
        await StartIntervals(api.store, api.status, patience=0.01).of_queue(5)

    with pytest.raises(NoForecast, match=r"take longer than 0\.01 s; fewer"):
        asyncio.run(ask())


def test_only_so_many_wait_for_an_answer(api: Serving) -> None:
    queued(api)

    async def ask() -> list[Any]:
        intervals = StartIntervals(api.store, api.status)
        return await asyncio.gather(*(intervals.of_queue(5) for _ in range(10)), return_exceptions=True)

    answers = asyncio.run(ask())
    assert sum(isinstance(one, NoForecast) for one in answers) == 2
    assert len({id(one) for one in answers if not isinstance(one, NoForecast)}) == 1, "one answer for all"
