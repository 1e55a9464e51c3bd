"""The description at /v1/openapi.json is true: whatever is sent by it, the answer is one of those it names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ..serving import Serving, serving
from .test_routes import JOB

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("described") / "home") as running:
        for _ in range(3):
            running.ask("POST", "/v1/jobs", JOB)
        yield running


@pytest.fixture(scope="module")
def operator(api: Serving) -> str:
    token = api.ask("POST", "/v1/tokens", {"user": "chief", "role": "operator"}).json["token"]
    return str(token)


@pytest.fixture(scope="module")
def description(api: Serving) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{api.url}/v1/openapi.json")


schema = schemathesis.pytest.from_fixture("description")


@schema.parametrize()
@settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_any_request_gets_an_answer_that_is_described(case: schemathesis.Case, operator: str) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {operator}"}, checks=CHECKS)


def test_all_routes_are_described(api: Serving) -> None:
    described = api.ask("GET", "/v1/openapi.json").json
    routes = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert len(routes) == 21
