"""What an engine can never run is refused when it is submitted."""

from __future__ import annotations

from typing import Any

import pytest

from muster.service.engines import EngineCapabilities
from tests.service.serving import Serving, a_request


@pytest.mark.parametrize(
    ("fact", "value", "asked", "column"),
    [
        ("shares_gpus", False, {"gpu_share": 0.5}, "gpu_share"),
        ("spans_nodes", False, {"gpus": 5}, "gpus"),
        ("same_amounts_on_each_node", True, {"gpus": 5}, "gpus"),
    ],
)
def test_what_an_engine_never_runs_is_refused(
    api: Serving, fact: str, value: bool, asked: dict[str, Any], column: str
) -> None:
    body = a_request(**asked).model_dump(mode="json")
    assert api.ask("POST", "/v1/jobs", body).status == 201
    facts: dict[str, Any] = {"can_resize": True, "runs_as_users": False, fact: value}
    api.status.engine_capabilities = EngineCapabilities(**facts)
    refused = api.ask("POST", "/v1/jobs", body)
    assert [problem["column"] for problem in refused.json["error"]["problems"]] == [column]
