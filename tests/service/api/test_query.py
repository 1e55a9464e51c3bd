"""Parameters of an address that its route does not have are refused, on the API and on the pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ..serving import Serving, serving
from .test_routes import JOB


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One for all: what is refused changes nothing."""
    with serving(tmp_path_factory.mktemp("query") / "home") as running:
        yield running


def test_every_route_names_the_parameters_that_it_has(api: Serving) -> None:
    """The description says which, route by route."""
    described = api.ask("GET", "/v1/openapi.json").json["paths"]
    for path, methods in described.items():
        for method, route in methods.items():
            names = sorted(one["name"] for one in route.get("parameters", ()) if one["in"] == "query")
            refused = api.ask(method.upper(), f"{filled(path, route)}?wait=5")
            (problem,) = refused.json["error"]["problems"]
            assert (refused.status, problem["where"], problem["column"]) == (422, "query", "wait")
            said = f"allowed: {', '.join(names)}" if names else "allowed: none"
            assert said in problem["what"].split(". Hint")[0], path
            assert "422" in route["responses"]
    assert api.store.jobs() == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("/v1/jobs?stat=waiting", "query: stat: found 'waiting'; there is no such parameter; allowed: "),
        ("/v1/jobs?stat=waiting", "Hint: did you mean state?"),
        (
            "/v1/jobs:search?ordr=id",
            "allowed: descending, limit, offset, order, since, state, text, until, user",
        ),
        ("/v1/jobs?%ff%00=1", "there is no such parameter"),
        ("/v1/jobs?stat=", "query: stat: found ''"),
        ("/v1/jobs?limit=1&limit=2", "query: limit: found '2'; allowed: once"),
        ("/v1/usage?since=0&sinse=1", "did you mean since?"),
        ("/jobs?stat=waiting", "did you mean state?"),
        ("/nodes?bye=user", "allowed: by. Hint: did you mean by?"),
        ("/metrics?name[]=muster_jobs", "allowed: none"),
    ],
)
def test_a_parameter_that_has_no_effect_is_refused(api: Serving, query: str, said: str) -> None:
    refused = api.ask("GET", query)
    assert refused.status == 422
    assert said in refused.message


def test_a_submission_with_a_parameter_submits_nothing(api: Serving) -> None:
    assert api.ask("POST", "/v1/jobs?dry_run=true", JOB).status == 422
    assert api.store.jobs() == []


def test_all_wrong_parameters_are_reported_at_once(api: Serving) -> None:
    refused = api.ask("GET", "/v1/queue?stat=held&nam=x&stat=running")
    assert [problem["column"] for problem in refused.json["error"]["problems"]] == ["stat", "nam"]


@pytest.mark.parametrize(
    "query",
    [
        "/v1/queue?state=held&state=running",
        "/login?to=%2Fjobs",
        "/static/pages.css?v=1",
        "/jobs?text=&user=&state=&order=id&descending=true",
        "/metrics",
    ],
)
def test_what_a_route_and_a_page_have_is_taken(api: Serving, query: str) -> None:
    assert api.ask("GET", query).status == 200


def filled(path: str, route: Any) -> str:
    """An address of a route, whatever its path needs."""
    for parameter in route.get("parameters", ()):
        path = path.replace(f"{{{parameter['name']}}}", "1")
    return path
