"""A body that a route does not take is refused, on every route; none or an empty object is fine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ..serving import Serving, serving
from .test_query import filled
from .test_routes import JOB


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One for all: what is refused changes nothing."""
    with serving(tmp_path_factory.mktemp("body") / "home") as running:
        running.ask("POST", "/v1/jobs", JOB)
        yield running


def test_no_route_ignores_a_body(api: Serving) -> None:
    """The description says which of them take one."""
    described = api.ask("GET", "/v1/openapi.json").json["paths"]
    without = 0
    for path, methods in described.items():
        for method, route in methods.items():
            if "requestBody" not in route:
                without += 1
                refused = api.ask(method.upper(), filled(path, route), {"reason": "wrong data"})
                (problem,) = refused.json["error"]["problems"]
                assert (refused.status, problem["column"]) == (422, "body"), path
                assert problem["found"] == '{"reason": "wrong data"}'
                assert "takes no body; allowed: none, or {}. Hint: leave it out" in problem["what"]
    assert without > 30
    assert [(row.id, row.state.value) for row in api.store.jobs()] == [(1, "queued")]


@pytest.mark.parametrize("body", [b"[]", b"null", b"reason=x", b"\xff", b"[" * 100_000, b'{"a": 1}'])
def test_a_cancel_with_a_body_cancels_nothing(api: Serving, body: bytes) -> None:
    for headers in ({}, {"Content-Type": "application/json"}):
        assert api.ask("POST", "/v1/jobs/1/cancel", body, headers=headers).status == 422
    assert [row.state_request for row in api.store.jobs()] == [None]


@pytest.mark.parametrize("body", [None, b"", b" \n", b"{}", b" { } "])
def test_a_body_that_says_nothing_is_taken(api: Serving, body: bytes | None) -> None:
    assert api.ask("POST", "/v1/nodes/n0/undrain", body).status in (200, 404)
    assert api.ask("POST", "/v1/jobs/1/release", body).status in (200, 409)
    assert api.ask("GET", "/v1/jobs/1", body).status == 200


def test_pages_take_no_body(api: Serving) -> None:
    assert api.ask("GET", "/login", b"x").status == 422
