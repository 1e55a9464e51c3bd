"""The description at /v1/openapi.json is true: whatever is sent by it, the answer is one of those it names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from ..serving import Serving, serving
from .test_routes import JOB

STREAM = "/v1/events"
"""It ends with its reader; tests/service/pages/test_following.py has its tests."""
SIMULATED = ("/v1/starts", "/v1/would")
"""Each answer takes as many simulations as are asked for; test_starts.py has their tests."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("described") / "home") as running:
        for _ in range(3):
            running.ask("POST", "/v1/jobs", JOB)
        yield running


@pytest.fixture(scope="module")
def operator(api: Serving) -> dict[str, str]:
    made = api.ask("POST", "/v1/tokens", {"user": "chief", "role": "operator"}).json
    return {"Authorization": f"Bearer {made['token']}"}


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_any_request_gets_an_answer_that_is_described(
    api: Serving, operator: dict[str, str], mode: GenerationMode
) -> None:
    """Requests as the description has them, and requests that break it."""
    described = schemathesis.openapi.from_url(f"{api.tcp_url}/v1/openapi.json")
    found = list(described.get_all_operations())
    operations = [one.ok() for one in found if isinstance(one, Ok)]
    assert len(operations) == len(found) == 42
    for operation in operations:
        if operation.path in (STREAM, *SIMULATED):
            continue

        @settings(
            max_examples=8, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(headers=operator, checks=CHECKS)

        # Where nothing can be sent nothing can be wrong.
        with suppress(Unsatisfiable):
            ask()
