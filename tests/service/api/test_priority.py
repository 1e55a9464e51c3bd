"""Another priority for a job: by whom, and within which limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.schedulers.registry import build
from muster.service.limits import Limits
from muster.service.store.rows import PRIORITY, State, StateRequest, StoreChanges, Submission

from ..pages.conftest import logged_in
from ..serving import Answer, Serving, a_request, serving


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Serving]:
    limits = Limits.model_validate(
        {"users": {"ann": {"max_priority": 5.0}}, "tenants": {"vision": {"max_priority": 2.0}}}
    )
    with serving(tmp_path / "home", limits=limits) as running:
        running.status.policy = build("priority+tune-plus", {})
        yield running


def change(api: Serving, user: str, job: int, priority: float) -> Answer:
    return api.ask(
        "POST", f"/v1/jobs/{job}/priority", {"priority": priority}, headers=logged_in(api, user), tcp=True
    )


def test_priority_changes_within_the_users_limits(api: Serving) -> None:
    own, of_tenant, other = api.store.submit(
        [
            Submission("ann", a_request()),
            Submission("ann", a_request(tenant="vision")),
            Submission("bob", a_request()),
        ]
    )
    assert change(api, "ann", own, 5.0).json["priority"] == 5.0
    refused = change(api, "ann", own, 5.5)
    assert (refused.status, "ann may ask for 5 at most" in refused.message) == (403, True)
    assert "tenant vision may ask for 2 at most" in change(api, "ann", of_tenant, 3.0).message
    assert change(api, "ann", other, 1.0).status == 404
    assert change(api, "bob", other, 1000.0).status == 200
    assert change(api, "root", own, 1000.0).status == 200
    row = api.store.job(own)
    assert row is not None
    assert row.request == a_request(priority=1000.0)
    lines = [event.detail for event in api.store.events(own) if event.kind == PRIORITY]
    assert lines == ["5 instead of 0, asked by ann", "1000 instead of 5, asked by root"]


@pytest.mark.parametrize("scheduler", ["fifo", "slurm", "multifactor"])
def test_priority_without_effect_is_refused(api: Serving, scheduler: str) -> None:
    (job,) = api.store.submit([Submission("ann", a_request())])
    api.status.policy = build(scheduler, {})
    refused = change(api, "ann", job, 1.0)
    assert (refused.status, "ignores it; leave it out" in refused.message) == (422, True)
    assert api.store.events(job)[1:] == []


def test_priority_of_an_ended_job_stays(api: Serving) -> None:
    (job,) = api.store.submit([Submission("ann", a_request())])
    assert change(api, "ann", job, 0.0).status == 200
    api.store.request_state(job, StateRequest.CANCEL, "ann")
    changes = StoreChanges()
    changes.job(job, state=State.CANCELLED, finished=1.0)
    with api.store.claimed():
        api.store.commit(changes)
    assert change(api, "ann", job, 1.0).status == 409
