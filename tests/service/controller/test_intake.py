"""Jobs that were submitted to the engine, and what their owners request there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.service.engines import (
    AdoptJob,
    CloseJob,
    Command,
    EngineView,
    Exit,
    Observed,
    OwnerRequest,
    SubmittedJob,
)
from muster.service.engines.fake import FakeEngine
from muster.service.limits import Limits, UserLimit
from muster.service.request import JobRequest
from muster.service.store.rows import State, StateRequest
from tests.service.controller.test_fake_nodes import World


class Site:
    """What a site's own queue remembers, whatever becomes of Muster."""

    def __init__(self) -> None:
        self.submitted: dict[str, SubmittedJob] = {}
        self.requests: list[OwnerRequest] = []
        self.closed: dict[str, bool] = {}
        self.ended_alone: list[Observed] = []
        self.dies_before_adopting = False

    def submit(self, key: str, steps: int = 20, **fields: Any) -> None:
        request = JobRequest(name=key, command=("true",), directory="/", steps=steps, **fields)
        self.submitted[key] = SubmittedJob(key, "ann", request)


class SubmittingEngine(FakeEngine):
    """Fake nodes of a site."""

    site: Site

    def poll(self) -> EngineView:
        return replace(
            super().poll(),
            submitted=list(self.site.submitted.values()),
            requests=list(self.site.requests),
            ended_alone=list(self.site.ended_alone),
        )

    def carry_out(self, commands: Sequence[Command]) -> Sequence[Exception | None]:
        return [self._about_jobs(command) for command in commands]

    def _about_jobs(self, command: Command) -> Exception | None:
        match command:
            case AdoptJob(key, job):
                if self.site.dies_before_adopting:
                    raise SystemExit
                self.site.submitted[key] = replace(self.site.submitted[key], job=job)
            case CloseJob(key, _, completed):
                del self.site.submitted[key]
                self.site.closed[key] = completed
            case _:
                return super().carry_out([command])[0]
        return None


class SiteWorld(World):
    engine: SubmittingEngine

    def an_engine(self) -> FakeEngine:
        self.site = getattr(self, "site", Site())
        engine = SubmittingEngine(self.folder / "fake", self.cluster, self.pace, self.clock)
        engine.site = self.site
        return engine

    def turns(self, count: int = 3, seconds: float = 1.0) -> None:
        for _ in range(count):
            self.turn(seconds)

    def states(self) -> dict[str, State]:
        return {row.engine_key or "": row.state for row in self.store.jobs()}


@pytest.fixture
def world(tmp_path: Path) -> SiteWorld:
    return SiteWorld(tmp_path, "fifo")


def test_a_job_submitted_elsewhere_runs_and_is_closed(world: SiteWorld) -> None:
    world.site.submit("17@100")
    world.turns()
    assert world.states() == {"17@100": State.RUNNING}
    assert world.site.submitted["17@100"].job == 1
    assert world.controller.jobs.rows[1].user == "ann"
    world.turns(5, 30.0)
    assert world.states() == {"17@100": State.COMPLETED}
    assert world.site.closed == {"17@100": True}
    world.store.close()


@pytest.mark.parametrize(
    ("limit", "fields", "words"),
    [
        (UserLimit(tenants=("vision",)), {"tenant": "speech"}, "tenant: found speech; ann may not use this"),
        (UserLimit(tenants=("vision",)), {}, "tenant: ann has to name a tenant; allowed: vision"),
        (UserLimit(max_jobs=0), {}, "ann may have 0 jobs that have not ended, has 0, and this submits 1"),
        (UserLimit(), {"priority": 5.0}, "priority: found 5.0; fifo"),
        (UserLimit(), {"gpus": 2, "min_gpus": 1}, "min_gpus: found 1; fifo"),
    ],
    ids=["tenant", "no tenant", "jobs", "priority", "sizes"],
)
def test_what_muster_would_refuse_is_not_taken(
    world: SiteWorld, limit: UserLimit, fields: dict[str, Any], words: str
) -> None:
    """Until its owner, or the limit, is another one."""
    world.limits = Limits(users={"ann": limit})
    world.site.submit("17@100", **fields)
    world.turns()
    assert world.states() == {}
    (untaken,) = world.status.untaken
    assert (untaken.name, untaken.user) == ("17@100", "ann")
    assert untaken.words.startswith(words)
    world.limits = Limits()
    world.site.submit("17@100")
    world.turns()
    assert world.states() == {"17@100": State.RUNNING}
    assert world.status.untaken == ()
    world.store.close()


def test_jobs_of_one_poll_count_for_each_other(world: SiteWorld) -> None:
    world.limits = Limits(users={"ann": UserLimit(max_jobs=2)})
    for number in range(3):
        world.site.submit(f"{number}@100", steps=100_000)
    world.turns()
    assert set(world.states()) == {"0@100", "1@100"}
    assert [one.name for one in world.status.untaken] == ["2@100"]
    world.limits = Limits(users={"ann": UserLimit(max_jobs=3)})
    world.turns()
    assert len(world.states()) == 3
    world.store.close()


def test_operators_may_submit_elsewhere_without_limits(world: SiteWorld) -> None:
    world.limits = Limits(default=UserLimit(max_jobs=0))
    world.site.submit("17@100")
    world.site.submitted["17@100"] = replace(world.site.submitted["17@100"], user="root")
    world.turns()
    assert world.states() == {"17@100": State.RUNNING}
    world.store.close()


def test_a_job_is_taken_once_whenever_the_daemon_dies(world: SiteWorld) -> None:
    """It is on record, and the engine has not heard of that."""
    world.site.submit("17@100")
    world.site.dies_before_adopting = True
    with pytest.raises(SystemExit):
        world.turns()
    world.die()
    world.site.dies_before_adopting = False
    world.turns()
    assert len(world.store.jobs()) == 1
    assert world.site.submitted["17@100"].job == 1
    world.store.close()


def test_a_job_that_ended_unseen_is_closed_by_a_new_daemon(world: SiteWorld) -> None:
    world.site.submit("17@100")
    world.turns()
    left = world.site.submitted["17@100"]
    world.turns(5, 30.0)
    world.site.submitted["17@100"], world.site.closed = left, {}
    world.die()
    world.turns()
    assert world.site.closed == {"17@100": True}
    world.store.close()


def test_owners_cancel_where_they_submitted(world: SiteWorld) -> None:
    world.site.submit("17@100", steps=100_000)
    world.site.submit("18@100", steps=100_000)
    world.turns()
    world.site.requests = [
        OwnerRequest("17@100", StateRequest.CANCEL),
        OwnerRequest("99@1", StateRequest.CANCEL),
    ]
    world.turns()
    assert world.states() == {"17@100": State.CANCELLED, "18@100": State.RUNNING}
    assert world.site.closed == {"17@100": False}
    assert [event.kind for event in world.store.events(1)].count("cancel") == 1
    world.store.close()


@pytest.mark.parametrize(
    ("how", "state"),
    [(Exit.COMPLETED, State.COMPLETED), (Exit.KILLED, State.FAILED)],
    ids=lambda one: one.value,
)
def test_what_the_site_has_run_without_muster_has_ended(world: SiteWorld, how: Exit, state: State) -> None:
    """It is the job's end, not a request to cancel it; a job that has a start is not concerned."""
    world.site.submit("17@100", steps=100_000)
    world.site.submit("18@100", steps=100_000)
    world.turns()
    world.site.requests = [OwnerRequest("17@100", StateRequest.HOLD)]
    world.turns()
    world.site.requests = [OwnerRequest("17@100", StateRequest.CANCEL)]
    ended = world.store.origin + world.seconds + 0.5
    world.site.ended_alone = [Observed(job, 0, how, ended, 0, "without Muster") for job in (1, 2)]
    world.turns()
    assert world.states() == {"17@100": state, "18@100": State.RUNNING}
    row = world.store.job(1)
    assert row is not None
    assert (row.finished, row.status, row.message) == (ended - world.store.origin, 0, "without Muster")
    assert world.site.closed == {"17@100": state is State.COMPLETED}
    world.store.close()


def test_owners_hold_and_release_where_they_submitted(world: SiteWorld) -> None:
    world.site.submit("17@100", steps=100_000)
    world.turns()
    world.site.requests = [OwnerRequest("17@100", StateRequest.HOLD)]
    world.turns(6)
    assert world.states() == {"17@100": State.HELD}
    world.site.requests = [OwnerRequest("17@100", StateRequest.RELEASE)]
    world.turns(6)
    assert world.states() == {"17@100": State.RUNNING}
    assert not world.site.closed
    kinds = [event.kind for event in world.store.events(1)]
    assert (kinds.count("hold"), kinds.count("release")) == (1, 1)
    world.store.close()
