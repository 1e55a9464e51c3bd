"""Limits of users and tenants: the file, and what a submission is refused for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.problems import InputError
from muster.schedulers.registry import build
from muster.service.home import store_url
from muster.service.limits import LIMITS, Limits, exceeded, read_limits
from muster.service.store import Store
from muster.service.store.rows import State, StoreChanges, Submission
from muster.service.tokens import create_token

from .serving import Answer, a_request, serving

LIMITED = {
    "default": {"max_priority": 0.0, "max_jobs": 2},
    "users": {"ann": {"max_priority": 5.0, "tenants": ["vision"]}},
    "tenants": {"vision": {"max_jobs": 3, "max_priority": 4.0}},
}


def test_no_file_means_no_limits(tmp_path: Path) -> None:
    assert read_limits(None, tmp_path) == Limits()


def test_file_of_the_home_is_read_unless_one_is_named(tmp_path: Path) -> None:
    (tmp_path / LIMITS).write_text("[default]\nmax_jobs = 1\n")
    (tmp_path / "other.toml").write_text("[users.ann]\nmax_priority = 2\n")
    assert read_limits(None, tmp_path).of_user("ann").max_jobs == 1
    named = read_limits(tmp_path / "other.toml", tmp_path)
    assert (named.of_user("ann").max_priority, named.of_user("bob").max_jobs) == (2.0, None)
    with pytest.raises(InputError, match="there is no such file"):
        read_limits(tmp_path / "missing.toml", tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[default]\nmax_job = 1\n",
            r"limits.toml:2: default.max_job: there is no such field; allowed: .*did you mean max_jobs",
        ),
        ("[users.' ']\nmax_jobs = 1\n", r"limits.toml:.*allowed: text that is not only spaces"),
        (
            "[users.ann]\n\nmax_jobs = -1\n",
            r"limits.toml:3: users.ann.max_jobs: found -1; allowed: 0 or more",
        ),
        (
            "[tenants.x]\nmax_priority = 'a'\n",
            r"limits.toml:2: tenants.x.max_priority: found 'a'; allowed: a number",
        ),
        ("[default\n", r"limits.toml:1: this is not TOML"),
    ],
)
def test_mistake_in_the_file_is_named_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / LIMITS).write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_limits(None, tmp_path)


def test_submissions_above_a_limit_are_refused_whole(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits.model_validate(LIMITED)) as api:
        api.status.policy = build("priority")
        root = create_token(api.store, "root", operator=True, engine=None).text
        ann, bob = (
            create_token(api.store, name, operator=False, engine=None).text for name in ("ann", "bob")
        )

        def submit(token: str, *jobs: dict[str, Any]) -> Answer:
            bodies = [a_request(**job).model_dump(mode="json", exclude_unset=True) for job in jobs]
            if len(bodies) == 1:
                return api.ask("POST", "/v1/jobs", bodies[0], token=token)
            return api.ask("POST", "/v1/jobs:batch", {"jobs": bodies}, token=token)

        def refusal(answer: Answer) -> str:
            assert answer.status == 403
            return answer.message

        assert "priority: found 1.0; bob may ask for 0 at most" in refusal(submit(bob, {"priority": 1}))
        assert "job 2: priority" in refusal(submit(bob, {}, {"priority": 1}))
        assert submit(bob, {}, {}).status == 201
        assert "bob may have 2 jobs that have not ended, has 2, and this submits 1" in refusal(
            submit(bob, {})
        )
        api.store.commit(StoreChanges(jobs={1: {"state": State.CANCELLED, "finished": 1.0}}))
        assert submit(bob, {}).status == 201
        assert submit(root, {"priority": 99}, {}, {}, {}).status == 201  # an operator

        assert "may not use this tenant; allowed: vision" in refusal(submit(ann, {"tenant": "speech"}))
        assert "tenant vision may ask for 4 at most" in refusal(
            submit(ann, {"tenant": "vision", "priority": 5})
        )
        # Without a tenant, its limits would not hold.
        assert "tenant: ann has to name a tenant; allowed: vision" in refusal(submit(ann, {"priority": 5}))
        assert submit(ann, {"tenant": "vision", "priority": 4}).status == 201
        in_vision = a_request(tenant="vision")
        api.store.submit(
            [Submission("carl", in_vision), Submission("carl", a_request(environment={"tenant": "vision"}))]
        )
        assert submit(ann, {"tenant": "vision"}).status == 201
        assert "tenant vision may have 3 jobs" in refusal(submit(ann, {"tenant": "vision"}))
        assert api.store.counts()[State.QUEUED] == 2 + 4 + 1 + 2 + 1


def test_a_user_of_no_tenant_submits_without_one(tmp_path: Path) -> None:
    own = Limits.model_validate({"users": {"ann": {"tenants": []}}})
    store = Store.open(store_url(tmp_path))
    assert not list(exceeded(own, "ann", [a_request()], store))
    (problem,) = exceeded(own, "ann", [a_request(tenant="a")], store)
    store.close()
    assert problem.what == "ann may not use this tenant; allowed: none"
